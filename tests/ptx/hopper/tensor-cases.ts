/** Copies of tiles by tensor maps, both ways: types, swizzles, edges, strides, im2col, and maps that are wrong. */
import {
  beginText,
  CLUSTER_SYNC,
  clear,
  dump,
  fill,
  type HopperCase,
  initBars,
  kernelText,
  type MapSpec,
  pattern,
  waitAWhile,
  waitFor,
  zeros,
} from './hopper-case.js'

/** CUtensorMapDataType, with the bytes of an element. */
const TENSOR_TYPES = {
  u8: [0, 1],
  u16: [1, 2],
  u32: [2, 4],
  s32: [3, 4],
  u64: [4, 8],
  s64: [5, 8],
  f16: [6, 2],
  f32: [7, 4],
  f64: [8, 8],
  bf16: [9, 2],
  f32Ftz: [10, 4],
  tf32: [11, 4],
  tf32Ftz: [12, 4],
} as const
type TensorType = keyof typeof TENSOR_TYPES

const cases: HopperCase[] = []
const SIZE = 16384
const TILE = 16384

const coordinates = (rank: number): string => `{${Array.from({ length: rank }, (_, index) => `%w${index}`).join(', ')}}`

interface Options {
  readonly input?: Uint8Array
  readonly at?: number
  readonly words?: readonly number[]
}

/** The bytes of a tile in shared memory, as an mbarrier counts them. */
function bytesOfTile(map: MapSpec): number {
  const { type, dims, box = [], elementStrides = [], interleave = 0, im2col } = map
  const bytes = Object.values(TENSOR_TYPES).find(([number]) => number === type)?.[1] ?? 1
  if (im2col !== undefined) return im2col.channels * im2col.pixels * bytes
  const rank = dims.length
  const counts = box.map((size, axis) => {
    if (axis === 0) return size * (interleave === 0 ? bytes : 16 * interleave)
    return interleave !== 0 && axis === rank - 2 ? 1 : Math.ceil(size / (elementStrides[axis] ?? 1))
  })
  return counts.reduce((product, each) => product * each, 1)
}

/** Loads one box, and shows all of shared memory, and whether the mbarrier got the bytes that it awaits. */
function load(name: string, map: MapSpec, at: readonly number[], options: Options = {}): void {
  beginText()
  const rank = map.dims.length
  const { input = pattern(SIZE), at: to = 0, words = [] } = options
  const mode = map.im2col === undefined ? '' : '.im2col'
  const offsets = map.im2col === undefined ? '' : `, {${words.map((_, index) => `%h${index}`).join(', ')}}`
  const halves = words.map((_, index) => `cvt.u16.u32 %h${index}, %w${rank + index};`).join('\n')
  const body = [
    ...['.reg .b16 %h<4>;', halves, clear(TILE), initBars([1])],
    `@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], ${bytesOfTile(map)};`,
    `@%first cp.async.bulk.tensor.${rank}d.shared::cluster.global${mode}.mbarrier::complete_tx::bytes [%smem+${to}], [%m0, ${coordinates(rank)}], [%bars]${offsets};`,
    ...['bar.sync 0;', waitAWhile(), 'selp.u32 %r2, 1, 0, %q1;', 'fence.proxy.async;', 'bar.sync 0;', dump(TILE)],
    `@%first st.global.b32 [%out+${TILE}], %r2;`,
  ].join('\n')
  cases.push({
    ...{ name, grid: [1, 1, 1], block: [32, 1, 1], buffers: [input, zeros(TILE + 16)] },
    args: [{ buffer: 0 }, { buffer: 1 }, { map }, ...[...at, ...words].map((u32) => ({ u32 }))],
    ptx: kernelText({ tile: TILE, bars: 1, maps: 1, words: rank + words.length, body }),
  })
}

/** A map of rows beside each other, all of whose dimensions but the sizes are given. */
function tiles(
  type: TensorType,
  dims: readonly number[],
  box: readonly number[],
  rest: Partial<MapSpec> = {},
): MapSpec {
  const [number, bytes] = TENSOR_TYPES[type]
  const strides: number[] = []
  let stride = (dims[0] ?? 1) * bytes
  for (const dim of dims.slice(1)) {
    stride = Math.ceil(stride / 16) * 16
    strides.push(stride)
    stride *= dim
  }
  return { buffer: 0, type: number, dims, strides, box, ...rest }
}

for (const type of Object.keys(TENSOR_TYPES) as TensorType[]) {
  const bytes = TENSOR_TYPES[type][1]
  load(`load ${type}`, tiles(type, [32, 16], [32 / bytes, 5]), [16 / bytes, 3])
}
load('load 1d', tiles('f32', [100], [64]), [12])
load('load 1d beyond', tiles('f32', [100], [64]), [60])
load('load 3d', tiles('u16', [24, 10, 6], [16, 4, 3]), [8, 2, 1])
load('load 4d', tiles('u8', [32, 5, 4, 6], [16, 3, 2, 3]), [16, 1, 1, 2])
load('load 5d', tiles('u32', [8, 4, 4, 3, 3], [4, 2, 3, 2, 2]), [4, 1, 1, 1, 0])
load('load from the left', tiles('f32', [32, 16], [16, 6]), [-4, -2])
load('load to the right', tiles('f32', [32, 16], [16, 6]), [24, 13])
load('load outside', tiles('f32', [32, 16], [16, 6]), [64, 40])
load('load far outside', tiles('f32', [32, 16], [16, 6]), [-2147483648, 2147483647])
load('load of rows with a gap', tiles('f32', [30, 16], [16, 6], { strides: [144] }), [20, 2])
load('load of a narrow tensor', tiles('f32', [5, 16], [16, 6], { strides: [32] }), [0, 1])
load('load of a row with gaps', tiles('f32', [3, 16, 4], [8, 6, 2], { strides: [16, 512] }), [0, 1, 1])
for (const type of ['f16', 'bf16', 'f32', 'f64', 'tf32', 'f32Ftz', 'tf32Ftz'] as const)
  load(`load NaN ${type}`, tiles(type, [16, 8], [16 / TENSOR_TYPES[type][1], 4], { fill: 1 }), [
    Math.max(8, 16 - 16 / TENSOR_TYPES[type][1]),
    6,
  ])
{
  // Denormal numbers, infinities, NaN and bits that tf32 does not keep.
  const words = Uint32Array.from(
    { length: SIZE / 4 },
    (_, at) =>
      [
        0x00000001, 0x807fffff, 0x7f800000, 0xff800001, 0x7fc12345, 0x3f801fff, 0x3f801000, 0x3f800fff, 0xbf803000,
        0x00800000, 0x7f7fffff, 0x00002000,
      ][at % 12] ?? 0,
  )
  for (const type of ['f32', 'f32Ftz', 'tf32', 'tf32Ftz'] as const)
    load(`load bits ${type}`, tiles(type, [16, 8], [16, 4]), [4, 1], { input: new Uint8Array(words.buffer) })
}
for (const swizzle of [1, 2, 3]) {
  const inner = 16 << swizzle
  load(`load swizzle ${swizzle}`, tiles('u8', [256, 32], [inner, 16], { swizzle }), [32, 5])
  load(`load swizzle ${swizzle} narrow`, tiles('u8', [256, 32], [inner / 2, 16], { swizzle }), [32, 5])
  load(`load swizzle ${swizzle} 16`, tiles('u8', [256, 32], [16, 16], { swizzle }), [32, 5])
  load(`load swizzle ${swizzle} f32`, tiles('f32', [64, 32], [inner / 4, 16], { swizzle }), [8, 5])
  load(`load swizzle ${swizzle} at 128`, tiles('u8', [256, 32], [inner, 16], { swizzle }), [0, 0], { at: 128 })
  load(`load swizzle ${swizzle} at 640`, tiles('f16', [128, 32], [inner / 2, 8], { swizzle }), [0, 0], { at: 640 })
  load(`load swizzle ${swizzle} 3d`, tiles('f16', [64, 10, 6], [inner / 2, 5, 3], { swizzle }), [8, 2, 1])
  load(`load swizzle ${swizzle} edge`, tiles('f16', [64, 10], [inner / 2, 6], { swizzle }), [48, 7])
}
load('load without swizzle 256', tiles('u8', [256, 32], [256, 16]), [0, 5])
load('load without swizzle 48', tiles('u8', [256, 32], [48, 16]), [16, 5])
load('load strides 2', tiles('f32', [32, 16], [16, 8], { elementStrides: [2, 1] }), [4, 2])
load('load strides 1 3', tiles('f32', [32, 16], [8, 8], { elementStrides: [1, 3] }), [4, 2])
load('load strides 2 3', tiles('u8', [64, 16], [32, 8], { elementStrides: [2, 3] }), [16, 2])
load('load strides odd', tiles('f32', [32, 16], [12, 7], { elementStrides: [3, 2] }), [4, 1])
load('load strides at an edge', tiles('f32', [32, 16], [16, 8], { elementStrides: [2, 2] }), [-4, 11])
load('load strides 3d', tiles('u16', [24, 10, 6], [16, 4, 3], { elementStrides: [1, 2, 2] }), [8, 2, 1])
load('load strides swizzle', tiles('f16', [64, 32], [32, 16], { elementStrides: [2, 2], swizzle: 2 }), [0, 1])
for (const [name, interleave, rest] of [
  ['16', 1, {}],
  ['32', 2, { swizzle: 1 }],
] as const) {
  const channel = interleave === 1 ? 16 : 32
  load(`load interleave ${name}`, tiles('u8', [channel, 10, 6], [channel, 4, 3], { interleave, ...rest }), [0, 2, 1])
  load(
    `load interleave ${name} f16`,
    tiles('f16', [channel / 2, 10, 6], [channel / 2, 4, 3], { interleave, ...rest }),
    [0, 2, 1],
  )
  load(
    `load interleave ${name} 4d`,
    tiles('u8', [channel, 6, 5, 4], [channel, 3, 2, 2], { interleave, ...rest }),
    [0, -1, 1, 1],
  )
  load(
    `load interleave ${name} slices`,
    tiles('u8', [4 * channel, 10, 6], [channel, 4, 3], { interleave, ...rest }),
    [1, 2, 1],
  )
}

for (const [name, interleave, rest] of [
  ['16', 1, {}],
  ['32', 2, { swizzle: 1 }],
] as const) {
  for (const slices of [1, 8, 16, 17, 32, 40, 64])
    load(
      `load interleave ${name} box ${slices}`,
      tiles('u8', [16, 80, 3], [16, slices, 2], {
        interleave,
        strides: [256 * interleave, 20480 * interleave],
        ...rest,
      }),
      [2, 1, 0],
      { input: pattern(3 * 20480 * interleave) },
    )
  load(
    `load interleave ${name} f16 box 16`,
    tiles('f16', [16, 80, 3], [16, 16, 2], { interleave, strides: [256 * interleave, 20480 * interleave], ...rest }),
    [3, 1, 1],
    { input: pattern(3 * 20480 * interleave) },
  )
  load(
    `load interleave ${name} strides`,
    tiles('u8', [16, 8, 5, 3], [16, 5, 1, 2], {
      interleave,
      strides: [256 * interleave, 2048 * interleave, 10240 * interleave],
      elementStrides: [2, 2, 1, 1],
      ...rest,
    }),
    [1, 1, 2, 0],
    { input: pattern(30720 * interleave) },
  )
  load(
    `load interleave ${name} edge`,
    tiles('u8', [16, 8, 5, 3], [16, 5, 1, 2], {
      interleave,
      strides: [256 * interleave, 2048 * interleave, 10240 * interleave],
      ...rest,
    }),
    [10, -2, 2, 2],
    { input: pattern(30720 * interleave) },
  )
}

// im2col.
const image = (
  type: TensorType,
  dims: readonly number[],
  im2col: NonNullable<MapSpec['im2col']>,
  rest: Partial<MapSpec> = {},
): MapSpec => {
  const { box: _, ...map } = tiles(type, dims, [])
  return { ...map, im2col, ...rest }
}
load('im2col 3d', image('f16', [16, 10, 3], { lower: [-1], upper: [-1], channels: 8, pixels: 12 }), [0, -1, 0], {
  words: [1],
})
load(
  'im2col 4d',
  image('f16', [16, 7, 6, 2], { lower: [-1, -1], upper: [-1, -1], channels: 16, pixels: 20 }),
  [0, -1, -1, 0],
  { words: [1, 2] },
)
load(
  'im2col 4d middle',
  image('f32', [8, 7, 6, 2], { lower: [0, 0], upper: [-2, -2], channels: 8, pixels: 30 }),
  [0, 3, 2, 0],
  { words: [2, 1] },
)
load(
  'im2col 4d offset',
  image('f32', [16, 7, 6, 2], { lower: [-1, -1], upper: [1, 0], channels: 8, pixels: 16 }),
  [4, 2, 4, 1],
  { words: [0, 1] },
)
load(
  'im2col 4d strides',
  image(
    'f32',
    [8, 9, 8, 2],
    { lower: [-1, -1], upper: [-1, -1], channels: 8, pixels: 14 },
    { elementStrides: [1, 2, 2, 1] },
  ),
  [0, -1, -1, 0],
  { words: [1, 1] },
)
load(
  'im2col 4d swizzle',
  image('f16', [64, 7, 6, 1], { lower: [-1, -1], upper: [-1, -1], channels: 32, pixels: 20 }, { swizzle: 2 }),
  [32, -1, 0, 0],
  { words: [0, 0] },
)
load(
  'im2col 4d NaN',
  image('f32', [16, 7, 6, 2], { lower: [-1, -1], upper: [-1, -1], channels: 8, pixels: 16 }, { fill: 1 }),
  [0, -1, -1, 0],
  { words: [0, 0] },
)
load(
  'im2col 4d beyond',
  image('f32', [8, 5, 4, 2], { lower: [0, 0], upper: [0, 0], channels: 8, pixels: 24 }),
  [0, 2, 2, 1],
  { words: [0, 0] },
)
load(
  'im2col 5d',
  image('f32', [8, 5, 4, 3, 2], { lower: [-1, 0, -1], upper: [-1, 0, -1], channels: 8, pixels: 25 }),
  [0, -1, 1, 0, 0],
  { words: [2, 0, 1] },
)

/** Stores one box, or reduces by it. */
function put(name: string, map: MapSpec, at: readonly number[], operation = '', options: Options = {}): void {
  beginText()
  const rank = map.dims.length
  const { input = pattern(8192, 7), at: from = 0 } = options
  const mode = map.im2col === undefined ? '' : '.im2col_no_offs'
  const copy = operation === '' ? 'cp.async' : 'cp.reduce.async'
  const body = [
    fill(8192),
    `@%first ${copy}.bulk.tensor.${rank}d.global.shared::cta${operation === '' ? '' : `.${operation}`}${mode}.bulk_group [%m0, ${coordinates(rank)}], [%smem+${from}];`,
    ...['@%first cp.async.bulk.commit_group;', '@%first cp.async.bulk.wait_group 0;'],
  ].join('\n')
  cases.push({
    ...{ name, grid: [1, 1, 1], block: [32, 1, 1], buffers: [input, pattern(SIZE, 3)] },
    args: [{ buffer: 0 }, { buffer: 1 }, { map: { ...map, buffer: 1 } }, ...at.map((u32) => ({ u32 }))],
    ptx: kernelText({ tile: 8192, maps: 1, words: rank, body }),
  })
}
for (const [type, width] of [
  ['f32', 29],
  ['f32', 30],
  ['f32', 31],
  ['u16', 27],
  ['u8', 50],
  ['f64', 15],
] as const) {
  const each = TENSOR_TYPES[type][1]
  const narrow = tiles(type, [width, 16], [32 / each, 6])
  const last = Math.floor((width * each) / 16) * (16 / each)
  put(`store ${type} at the edge of ${width}`, narrow, [last - 16 / each, 2])
  put(`store ${type} beyond the edge of ${width}`, narrow, [last + 16 / each, 2])
  load(`load ${type} at the edge of ${width}`, narrow, [last - 16 / each, 2])
}
put('reduce at an edge', tiles('f32', [30, 16], [16, 6], { strides: [144] }), [20, 2], 'add', {
  input: new Uint8Array(new Float32Array(2048).fill(1.5).buffer),
})
put('store from the left', tiles('u8', [50, 16], [64, 6]), [-16, 2])
put(
  'store im2col outside',
  image('f16', [16, 7, 6, 2], { lower: [-1, -1], upper: [-1, -1], channels: 16, pixels: 20 }),
  [0, -1, 0, 0],
)
put(
  'store im2col of images',
  image('f16', [16, 7, 6, 2], { lower: [0, 0], upper: [0, 0], channels: 16, pixels: 40 }),
  [0, 3, 4, 0],
)
put(
  'store im2col corner',
  image('f16', [16, 7, 6, 2], { lower: [-1, -1], upper: [-1, -1], channels: 16, pixels: 20 }),
  [0, 3, 2, 0],
)
put('store im2col wide', image('f32', [8, 10, 3], { lower: [-2], upper: [2], channels: 8, pixels: 12 }), [0, 8, 0])
put('store 1d', tiles('f32', [100], [64]), [60])
put('store 2d', tiles('u16', [64, 16], [24, 6]), [8, 2])
put('store at an edge', tiles('f32', [32, 16], [16, 6]), [-4, 13])
put('store outside', tiles('f32', [32, 16], [16, 6]), [40, 3])
put('store 3d', tiles('u8', [48, 10, 6], [16, 4, 3]), [16, 2, 4])
put('store 4d', tiles('u32', [8, 5, 4, 6], [4, 3, 2, 3]), [4, 1, 1, 2])
put('store 5d', tiles('u32', [8, 4, 4, 3, 3], [4, 2, 3, 2, 2]), [4, 1, 1, 1, 0])
put('store of rows with a gap', tiles('f32', [30, 16], [16, 6], { strides: [144] }), [20, 2])
for (const swizzle of [1, 2, 3])
  put(`store swizzle ${swizzle}`, tiles('f16', [128, 32], [8 << swizzle, 12], { swizzle }), [8, 5])
put('store swizzle at 384', tiles('u8', [256, 32], [128, 12], { swizzle: 3 }), [16, 5], '', { at: 384 })
put('store interleave 16', tiles('u8', [16, 10, 6], [16, 4, 3], { interleave: 1 }), [0, 2, 1])
put('store interleave 32', tiles('u8', [32, 10, 6], [32, 4, 3], { interleave: 2, swizzle: 1 }), [0, 2, 1])
put('store strides', tiles('f32', [32, 16], [16, 8], { elementStrides: [2, 2] }), [4, 2])
put('store tf32', tiles('tf32', [32, 16], [16, 8]), [4, 2])
put('store f32Ftz', tiles('f32Ftz', [32, 16], [16, 8]), [4, 2])
put(
  'store im2col',
  image('f16', [16, 7, 6, 2], { lower: [-1, -1], upper: [-1, -1], channels: 16, pixels: 20 }),
  [0, 0, 0, 0],
)
put('store im2col 3d', image('f32', [8, 10, 3], { lower: [0], upper: [-2], channels: 8, pixels: 12 }), [0, 3, 0])
const tame = (type: TensorType, seed: number): Uint8Array => {
  const bytes = pattern(SIZE, seed)
  const view = new DataView(bytes.buffer)
  const every = TENSOR_TYPES[type][1]
  for (let at = 0; at < SIZE; at += every) {
    const value = (bytes[at] ?? 0) / 8 - 16
    if (type === 'f32' || type === 'f32Ftz' || type === 'tf32') view.setFloat32(at, value, true)
    else if (type === 'f64') view.setFloat64(at, value, true)
    else if (type === 'f16') bytes[at + 1] = ((bytes[at + 1] ?? 0) & 0x8f) | 0x30
    else if (type === 'bf16') bytes[at + 1] = ((bytes[at + 1] ?? 0) & 0x81) | 0x3e
  }
  return bytes
}
for (const [operations, types] of [
  [['add'], ['u32', 's32', 'u64', 's64', 'f16', 'bf16', 'f32', 'f32Ftz', 'f64', 'u8', 'u16', 'tf32']],
  [
    ['min', 'max'],
    ['u32', 's32', 'u64', 's64', 'f16', 'bf16', 'f32', 'u8'],
  ],
  [
    ['inc', 'dec'],
    ['u32', 's32', 'u8'],
  ],
  [
    ['and', 'or', 'xor'],
    ['u32', 's32', 'u64', 's64', 'u8', 'f16', 'f32'],
  ],
] as const) {
  for (const operation of operations) {
    for (const type of types) {
      put(
        `reduce ${operation} ${type}`,
        tiles(type, [64 / TENSOR_TYPES[type][1], 16], [32 / TENSOR_TYPES[type][1], 6]),
        [16 / TENSOR_TYPES[type][1], 12],
        operation,
        { input: tame(type, 5).slice(0, 8192) },
      )
    }
  }
}
put('reduce 3d', tiles('f32', [16, 8, 4], [8, 4, 2]), [4, 2, 3], 'add', { input: tame('f32', 5).slice(0, 8192) })
put('reduce im2col', image('f32', [8, 10, 3], { lower: [0], upper: [-2], channels: 8, pixels: 12 }), [0, 3, 0], 'add', {
  input: tame('f32', 5).slice(0, 8192),
})
put('reduce swizzle', tiles('u32', [64, 16], [32, 6], { swizzle: 3 }), [8, 4], 'add')

// Multicast and prefetch.
for (const mask of [5, 6]) {
  beginText()
  const body = [
    ...[
      '.reg .b16 %h0;',
      clear(2048),
      initBars([1]),
      `shr.u32 %r1, ${mask}, %rank;`,
      'and.b32 %r1, %r1, 1;',
      'setp.ne.u32 %p1, %r1, 0;',
    ],
    ...[
      'and.pred %p2, %p1, %first;',
      '@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], 384;',
      CLUSTER_SYNC,
    ],
    ...['setp.eq.u32 %p3, %rank, 1;', 'and.pred %p3, %p3, %first;', `mov.u16 %h0, ${mask};`],
    '@%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%smem+256], [%m0, {%w0, %w1}], [%bars], %h0;',
    ...['@!%p1 bra REST;', waitFor(), 'REST:', CLUSTER_SYNC, dump(2048), CLUSTER_SYNC],
  ].join('\n')
  cases.push({
    ...{ name: `multicast ${mask}`, grid: [4, 1, 1], block: [32, 1, 1], cluster: [4, 1, 1] },
    buffers: [pattern(SIZE), zeros(8192)],
    args: [{ buffer: 0 }, { buffer: 1 }, { map: tiles('f32', [32, 16], [16, 6]) }, { u32: 20 }, { u32: 3 }],
    ptx: kernelText({ tile: 2048, bars: 1, maps: 1, words: 2, body }),
  })
}
beginText()
cases.push({
  ...{ name: 'prefetch of a tile', grid: [1, 1, 1], block: [32, 1, 1], buffers: [pattern(SIZE), zeros(64)] },
  args: [{ buffer: 0 }, { buffer: 1 }, { map: tiles('f32', [32, 16], [16, 6]) }, { u32: 20 }, { u32: 3 }],
  ptx: kernelText({
    ...{ maps: 1, words: 2 },
    body: [
      ...[
        'prefetch.tensormap [%m0];',
        'prefetch.param.tensormap [map0];',
        '@%first cp.async.bulk.prefetch.tensor.2d.L2.global [%m0, {%w0, %w1}];',
      ],
      ...[
        '@%first fence.proxy.tensormap::generic.acquire.gpu [%m0], 128;',
        '@%first fence.proxy.tensormap::generic.release.gpu;',
        '@%first st.global.b32 [%out], 5;',
      ],
    ].join('\n'),
  }),
})

// A map in global memory, which one kernel copies there, and changes.
const inMemory = (name: string, changes: string): void => {
  beginText()
  const words = Array.from(
    { length: 16 },
    (_, at) => `ld.param.b64 %d1, [map0+${8 * at}];\nst.shared.b64 [%smem+${8 * at}], %d1;`,
  )
  const body = [
    ...['@!%first bra REST;', ...words, changes],
    'fence.proxy.tensormap::generic.release.gpu;',
    ...['add.u64 %d2, %out, 8192;'],
    ...Array.from(
      { length: 16 },
      (_, at) => `ld.shared.b64 %d1, [%smem+${8 * at}];\nst.global.b64 [%d2+${8 * at}], %d1;`,
    ),
    ...[
      'fence.proxy.tensormap::generic.release.gpu;',
      'fence.proxy.tensormap::generic.acquire.gpu [%d2], 128;',
      'fence.proxy.async;',
    ],
    ...['REST:', 'bar.sync 0;', clear(4096), initBars([1])],
    '@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], 384;',
    '@%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%d2, {%w0, %w1}], [%bars];',
    ...['bar.sync 0;', waitAWhile(), 'fence.proxy.async;', 'bar.sync 0;', dump(4096)],
  ].join('\n')
  cases.push({
    ...{ name, grid: [1, 1, 1], block: [32, 1, 1], buffers: [pattern(SIZE), zeros(8192 + 128)] },
    args: [{ buffer: 0 }, { buffer: 1 }, { map: tiles('f32', [32, 16], [16, 6]) }, { u32: 20 }, { u32: 3 }],
    ptx: kernelText({ tile: 4096, bars: 1, maps: 1, words: 2, body, target: 'sm_90a' }),
  })
}
inMemory('map in memory', '')
const replace = (field: string, type: string, value: string): string =>
  `tensormap.replace.tile.${field}.shared::cta.b1024.${type} [%smem], ${value};`
inMemory('replace address', `add.u64 %d3, %in, 256;\n${replace('global_address', 'b64', '%d3')}`)
inMemory('replace dimension 0', replace('global_dim', 'b32', '0, 25'))
inMemory('replace dimension 1', `mov.u32 %r5, 6;\n${replace('global_dim', 'b32', '1, %r5')}`)
inMemory('replace stride', `mov.u64 %d3, 256;\n${replace('global_stride', 'b64', '0, %d3')}`)
inMemory('replace box', replace('box_dim', 'b32', '0, 8'))
inMemory('replace element stride', replace('element_stride', 'b32', '1, 2'))
inMemory('replace rank', replace('rank', 'b32', '1'))
inMemory('replace type', replace('elemtype', 'b32', '1'))
inMemory('replace swizzle', replace('swizzle_mode', 'b32', '2'))
inMemory('replace interleave', replace('interleave_layout', 'b32', '0'))
inMemory('replace fill', replace('fill_mode', 'b32', '1'))

// Wrong programs.
const wrong = (name: string, map: MapSpec, copy: string, prefix = '', word = 0): void => {
  beginText()
  const body = [
    clear(4096),
    initBars([1]),
    '@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], 384;',
    prefix,
    `@%first ${copy};`,
    waitAWhile(),
    dump(4096),
  ].join('\n')
  cases.push({
    ...{ name: `wrong ${name}`, grid: [1, 1, 1], block: [32, 1, 1], buffers: [pattern(SIZE), zeros(4096)] },
    args: [{ buffer: 0 }, { buffer: 1 }, { map }, { u32: word }, { u32: 3 }],
    ptx: kernelText({ tile: 4096, bars: 2, maps: 1, words: 2, body }),
  })
}
const COPY = 'cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes'
const plain = tiles('f32', [32, 16], [16, 6])
wrong('destination at 16', plain, `${COPY} [%smem+16], [%m0, {%w0, %w1}], [%bars]`)
wrong('destination at 64', plain, `${COPY} [%smem+64], [%m0, {%w0, %w1}], [%bars]`)
wrong('destination at 8', plain, `${COPY} [%smem+8], [%m0, {%w0, %w1}], [%bars]`)
wrong('mbarrier alignment of a tile', plain, `${COPY} [%smem], [%m0, {%w0, %w1}], [%bars+4]`)
wrong(
  'dimensions of the copy',
  plain,
  'cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%m0, {%w0, %w1, %w1}], [%bars]',
)
wrong(
  'mode of the copy',
  image('f32', [8, 10, 3], { lower: [0], upper: [-2], channels: 8, pixels: 12 }),
  'cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%m0, {%w0, %w1, %w1}], [%bars]',
)
wrong('map that is none', plain, `${COPY} [%smem], [%in, {%w0, %w1}], [%bars]`)
wrong('map that is not aligned', plain, `${COPY} [%smem], [%d1, {%w0, %w1}], [%bars]`, 'add.u64 %d1, %m0, 16;')
wrong('map beyond memory', plain, `${COPY} [%smem], [%d1, {%w0, %w1}], [%bars]`, 'mov.u64 %d1, 0;')
wrong(
  'memory beyond its end',
  tiles('f32', [32, 16], [16, 6], { offset: 1 << 30 }),
  `${COPY} [%smem], [%m0, {%w0, %w1}], [%bars]`,
)
wrong('tile beyond shared memory', plain, `${COPY} [%r5], [%m0, {%w0, %w1}], [%bars]`, 'add.u32 %r5, %smem, 262144;')
wrong(
  'store at 16',
  { ...plain, buffer: 1 },
  'cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m0, {%w0, %w1}], [%smem+16]',
)
wrong(
  'interleave coordinate',
  tiles('u8', [16, 10, 6], [16, 4, 2], { interleave: 1 }),
  'cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%m0, {%w0, %w1, %w1}], [%bars]',
  '',
  3,
)

export const TENSOR_CASES: readonly HopperCase[] = cases

/** Maps that are encoded alone: the driver's answer is its result and the bytes. */
const encoded: (readonly [name: string, map: MapSpec])[] = []
const encode = (name: string, map: Partial<MapSpec> & { readonly type?: number }): void => {
  encoded.push([name, { ...tiles('f32', [64, 32], [16, 8]), ...map }])
}
encode('plain', {})
for (const type of Object.keys(TENSOR_TYPES) as TensorType[]) encode(`type ${type}`, tiles(type, [64, 32], [16, 8]))
encode('type 13', { type: 13 })
encode('type 16', { type: 16 })
encode('type -1', { type: -1 })
for (const offset of [1, 8, 16, 32]) encode(`address + ${offset}`, { offset })
encode('address + 16, interleave 32', {
  ...tiles('u8', [32, 8, 8], [32, 2, 2], { interleave: 2, swizzle: 1 }),
  offset: 16,
})
encode('address 0', { buffer: -1 })
for (const dims of [
  [0, 32],
  [1, 1],
  [2 ** 32, 4],
  [2 ** 32 - 1, 4],
  [2 ** 33, 4],
  [64, 2 ** 32],
  [17, 3],
])
  encode(`dims ${dims}`, { dims, strides: [Math.min(2 ** 36, 4 * 2 ** 33)] })
for (const stride of [0, 4, 8, 16, 240, 255, 256, 264, 2 ** 40 - 16, 2 ** 40, 2 ** 41])
  encode(`stride ${stride}`, { strides: [stride] })
encode('stride 16 interleave 32', {
  ...tiles('u8', [32, 8, 8], [32, 2, 2], { interleave: 2, swizzle: 1 }),
  strides: [48, 384],
})
encode('strides that go down', { ...tiles('f32', [8, 8, 8], [8, 2, 2]), strides: [512, 32] })
for (const box of [
  [0, 8],
  [1, 8],
  [2, 8],
  [3, 8],
  [4, 8],
  [5, 8],
  [16, 0],
  [256, 256],
  [257, 8],
  [16, 257],
  [64, 32],
  [128, 64],
  [20, 8],
])
  encode(`box ${box}`, { box })
for (const elementStrides of [
  [0, 1],
  [1, 0],
  [2, 1],
  [8, 1],
  [9, 1],
  [1, 8],
  [1, 9],
  [3, 3],
  [16, 1],
])
  encode(`element strides ${elementStrides}`, { elementStrides })
for (const swizzle of [1, 2, 3, 4, 5, 7, -1]) {
  encode(`swizzle ${swizzle} box 32`, { swizzle, box: [8, 8] })
  encode(`swizzle ${swizzle} box 64`, { swizzle, box: [16, 8] })
  encode(`swizzle ${swizzle} box 128`, { swizzle, box: [32, 8] })
  encode(`swizzle ${swizzle} box 256`, { swizzle, box: [64, 8] })
}
for (const interleave of [1, 2, 3, -1])
  for (const swizzle of [0, 1, 2]) {
    encode(`interleave ${interleave} swizzle ${swizzle} of 2`, { interleave, swizzle })
    encode(`interleave ${interleave} swizzle ${swizzle} of 3`, {
      ...tiles('f32', [32, 8, 8], [8, 2, 2]),
      interleave,
      swizzle,
    })
    encode(`interleave ${interleave} swizzle ${swizzle} of 4`, {
      ...tiles('f16', [32, 8, 8, 8], [16, 2, 2, 2]),
      interleave,
      swizzle,
    })
  }
for (const l2 of [1, 2, 3, 4, -1]) encode(`l2 ${l2}`, { l2 })
for (const type of Object.keys(TENSOR_TYPES) as TensorType[])
  encode(`fill NaN ${type}`, tiles(type, [64, 32], [16, 8], { fill: 1 }))
encode('fill 2', { fill: 2 })
for (const rank of [1, 2, 3, 4, 5])
  encode(
    `rank ${rank}`,
    tiles('f32', [64, 32, 9, 7, 5].slice(0, rank), [16, 8, 3, 2, 4].slice(0, rank), {
      elementStrides: [1, 2, 3, 4, 5].slice(0, rank),
    }),
  )
for (const box of [
  [64, 1],
  [128, 8],
  [256, 8],
  [256, 16],
  [256, 32],
  [256, 64],
  [256, 128],
  [64, 256],
  [128, 256],
  [8, 256],
]) {
  encode(`f32 box ${box}`, { box })
  encode(`u8 box ${box}`, { ...tiles('u8', [512, 512], [16, 8]), box })
  encode(`f64 box ${box}`, { ...tiles('f64', [512, 512], [16, 8]), box })
}
for (const box of [
  [256, 64, 2],
  [256, 64, 3],
  [64, 256, 4],
  [64, 128, 8],
  [256, 256, 1],
  [16, 256, 16],
  [16, 256, 17],
])
  encode(`3d box ${box}`, { ...tiles('f32', [64, 64, 64], [16, 8, 1]), box })
for (const box of [
  [16, 1, 1],
  [8, 1, 1],
  [4, 1, 1],
  [1, 1, 1],
  [3, 1, 1],
  [256, 1, 1],
  [256, 256, 1],
  [16, 256, 1],
  [16, 64, 16],
]) {
  encode(`interleave 1 box ${box}`, { ...tiles('u8', [16, 8, 8], [16, 2, 2], { interleave: 1 }), box })
  encode(`interleave 2 box ${box}`, { ...tiles('u8', [32, 8, 8], [32, 2, 2], { interleave: 2, swizzle: 1 }), box })
}
for (const swizzle of [1, 2, 3])
  for (const bytes of [16, 32, 48, 64, 96, 112, 128, 144])
    encode(`swizzle ${swizzle} box of ${bytes}`, { ...tiles('u8', [512, 512], [bytes, 8], { swizzle }) })
encode('rank 0', { dims: [], strides: [], box: [] })
encode('rank 6', tiles('u8', [16, 2, 2, 2, 2, 2], [16, 1, 1, 1, 1, 1]))
for (const [name, lower, upper, channels, pixels] of [
  ['4d', [-1, -2], [3, 4], 16, 20],
  ['4d far', [-128, 127], [-128, 127], 16, 20],
  ['4d too far', [-129, 0], [0, 0], 16, 20],
  ['4d too far up', [0, 0], [128, 0], 16, 20],
  ['pixels 0', [0, 0], [0, 0], 16, 0],
  ['pixels 1024', [0, 0], [0, 0], 16, 1024],
  ['pixels 1025', [0, 0], [0, 0], 16, 1025],
  ['channels 0', [0, 0], [0, 0], 0, 20],
  ['channels 256', [0, 0], [0, 0], 256, 20],
  ['channels 257', [0, 0], [0, 0], 257, 20],
  ['channels 3', [0, 0], [0, 0], 3, 20],
  ['empty', [5, 5], [-5, -5], 16, 20],
] as const)
  encoded.push([`im2col ${name}`, image('f16', [64, 7, 6, 2], { lower, upper, channels, pixels })])
encoded.push(['im2col 3d', image('f16', [64, 7, 6], { lower: [-300], upper: [40], channels: 16, pixels: 20 })])
encoded.push(['im2col 3d low', image('f16', [64, 7, 6], { lower: [-32768], upper: [32767], channels: 16, pixels: 20 })])
encoded.push(['im2col 3d too low', image('f16', [64, 7, 6], { lower: [-32769], upper: [0], channels: 16, pixels: 20 })])
encoded.push([
  'im2col 5d',
  image(
    'f16',
    [64, 7, 6, 5, 2],
    { lower: [-1, -2, -3], upper: [1, 2, 3], channels: 16, pixels: 20 },
    { elementStrides: [1, 2, 3, 4, 1] },
  ),
])
encoded.push([
  'im2col 5d far',
  image('f16', [64, 7, 6, 5, 2], { lower: [-16, 15, -16], upper: [15, -16, 15], channels: 16, pixels: 20 }),
])
encoded.push([
  'im2col 5d too far',
  image('f16', [64, 7, 6, 5, 2], { lower: [-17, 0, 0], upper: [0, 0, 0], channels: 16, pixels: 20 }),
])
encoded.push(['im2col 2d', image('f16', [64, 7], { lower: [], upper: [], channels: 16, pixels: 20 })])
encoded.push([
  'im2col swizzle',
  image(
    'f16',
    [64, 7, 6, 2],
    { lower: [-1, -2], upper: [3, 4], channels: 64, pixels: 20 },
    { swizzle: 3, l2: 3, fill: 1, elementStrides: [1, 2, 3, 4] },
  ),
])
encoded.push([
  'im2col interleave',
  image(
    'f16',
    [16, 7, 6, 2],
    { lower: [-1, -2], upper: [3, 4], channels: 16, pixels: 20 },
    { swizzle: 1, interleave: 2 },
  ),
])

export const ENCODED_MAPS: readonly (readonly [name: string, map: MapSpec])[] = encoded
