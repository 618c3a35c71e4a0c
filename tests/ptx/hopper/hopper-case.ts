/**
 * Small kernels in PTX with asynchronous copies, tensor maps and clusters. A GPU plays them by record.py, which writes what it answered; the tests
 * play them on the engine and compare every byte.
 */

/** A tensor map as `cuTensorMapEncodeTiled` takes it: dimensions, boxes and strides begin with the innermost; strides are bytes, without the first. */
export interface MapSpec {
  readonly buffer: number
  readonly offset?: number
  /** CUtensorMapDataType. */
  readonly type: number
  readonly dims: readonly number[]
  readonly strides: readonly number[]
  readonly box?: readonly number[]
  readonly elementStrides?: readonly number[]
  readonly interleave?: number
  readonly swizzle?: number
  readonly l2?: number
  readonly fill?: number
  /** Makes it a map for im2col (`cuTensorMapEncodeIm2col`). */
  readonly im2col?: {
    readonly lower: readonly number[]
    readonly upper: readonly number[]
    readonly channels: number
    readonly pixels: number
  }
}

export type ArgumentSpec =
  | { readonly buffer: number; readonly offset?: number }
  | { readonly map: MapSpec }
  | { readonly u32: number }

export interface HopperCase {
  readonly name: string
  readonly ptx: string
  /** The name of the kernel. Default: k. */
  readonly entry?: string
  readonly grid: readonly [number, number, number]
  readonly block: readonly [number, number, number]
  readonly cluster?: readonly [number, number, number]
  readonly shared?: number
  /** The contents of each buffer before the launch. */
  readonly buffers: readonly Uint8Array[]
  readonly args: readonly ArgumentSpec[]
}

/** Bytes that are all different from their neighbours. */
export function pattern(byteLength: number, seed = 1): Uint8Array {
  let state = seed >>> 0
  return Uint8Array.from({ length: byteLength }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state >>> 24) & 255
  })
}

export const zeros = (byteLength: number): Uint8Array => new Uint8Array(byteLength)

interface KernelText {
  /** The bytes of the shared array `tile`, whose location is in %smem. */
  readonly tile?: number
  /** The number of mbarriers in the shared array `bars`, whose location is in %bars. */
  readonly bars?: number
  readonly maps?: number
  /** The number of words passed behind the pointers and maps, in %w0, %w1, … */
  readonly words?: number
  readonly directives?: string
  readonly version?: string
  readonly target?: string
  readonly body: string
}

/**
 * The text of a kernel k(in, out, maps…, words…). %in and %out are the pointers, %me, %rank and %smem what they say; %m0 is the generic
 * address of the first map. Its body may use %r0 to %r63, %d0 to %d31, %f0 to %f15 and %p0 to %p15.
 */
export function kernelText(text: KernelText): string {
  const { tile = 0, bars = 0, maps = 0, words = 0, directives = '', body } = text
  const { version = '8.6', target = 'sm_90' } = text
  const parameters = ['.param .u64 from', '.param .u64 to']
  for (let index = 0; index < maps; index++) parameters.push(`.param .align 64 .b8 map${index}[128]`)
  for (let index = 0; index < words; index++) parameters.push(`.param .u32 word${index}`)
  const start = [
    'ld.param.u64 %in, [from];',
    'ld.param.u64 %out, [to];',
    'mov.u32 %me, %tid.x;',
    'mov.u32 %rank, %cluster_ctarank;',
    ...(tile > 0 ? ['mov.u32 %smem, tile;'] : []),
    ...(bars > 0 ? ['mov.u32 %bars, bars;'] : []),
    'setp.eq.u32 %first, %me, 0;',
  ]
  for (let index = 0; index < maps; index++) start.push(`mov.b64 %x0, map${index};`, `cvta.param.u64 %m${index}, %x0;`)
  for (let index = 0; index < words; index++) start.push(`ld.param.u32 %w${index}, [word${index}];`)
  return `.version ${version}
.target ${target}
.address_size 64
${tile > 0 ? `.shared .align 1024 .b8 tile[${tile}];` : ''}
${bars > 0 ? `.shared .align 8 .b64 bars[${bars}];` : ''}
.visible .entry k(${parameters.join(', ')}) ${directives}
{
.reg .b32 %me, %rank, %smem, %bars, %r<64>, %w<16>, %n<8>;
.reg .b64 %in, %out, %m<4>, %d<32>, %y<8>;
.reg .b64 %x0;
.reg .f32 %f<16>;
.reg .pred %first, %p<16>, %q<8>;
${start.join('\n')}
${body}
ret;
}
`
}

let labels = 0
const label = (): string => `L${labels++}`
/** Lets labels begin anew, so that a case has the same text each time. */
export function beginText(): void {
  labels = 0
}

/** Lets the first thread initialise mbarriers, for all to see. */
export const initBars = (counts: readonly number[]): string => {
  const inits = counts.map((count, index) => `@%first mbarrier.init.shared::cta.b64 [%bars+${8 * index}], ${count};`)
  return [...inits, '@%first fence.mbarrier_init.release.cluster;', 'fence.proxy.async;', 'bar.sync 0;'].join('\n')
}

/** Waits for the phase of an mbarrier, of the named register or location. */
export const waitFor = (bar = '%bars', parity: number | string = 0, space = 'shared::cta'): string => {
  const again = label()
  return `${again}:
mbarrier.try_wait.parity.${space}.b64 %q0, [${bar}], ${parity};
@!%q0 bra ${again};`
}

/** Waits for the phase of an mbarrier for a while; %q1 says whether it came. */
export const waitAWhile = (bar = '%bars'): string => {
  const again = label()
  return `mov.u32 %n0, 0;
${again}:
mbarrier.test_wait.parity.shared::cta.b64 %q1, [${bar}], 0;
nanosleep.u32 100;
add.u32 %n0, %n0, 1;
setp.lt.u32 %q0, %n0, 200;
@%q1 setp.lt.u32 %q0, %n0, 0;
@%q0 bra ${again};`
}

/** Copies shared memory from the named register on to the output, at an offset of bytes for each block of the cluster. */
export const dump = (
  bytes: number,
  options: { from?: string; at?: number; each?: number; threads?: number } = {},
): string => {
  const { from = '%smem', at = 0, each = bytes, threads = 32 } = options
  const [again, end] = [label(), label()]
  return `bar.sync 0;
shl.b32 %n1, %me, 2;
${again}:
setp.ge.u32 %q2, %n1, ${bytes};
@%q2 bra ${end};
add.u32 %n2, ${from}, %n1;
ld.shared.b32 %n3, [%n2];
mad.lo.u32 %n4, %rank, ${each}, %n1;
cvt.u64.u32 %y0, %n4;
add.u64 %y1, %out, %y0;
st.global.b32 [%y1+${at}], %n3;
add.u32 %n1, %n1, ${4 * threads};
bra ${again};
${end}:`
}

/** Fills shared memory from the named register on with the input. */
export const fill = (bytes: number, options: { to?: string; at?: number; threads?: number } = {}): string => {
  const { to = '%smem', at = 0, threads = 32 } = options
  const [again, end] = [label(), label()]
  return `shl.b32 %n1, %me, 2;
${again}:
setp.ge.u32 %q2, %n1, ${bytes};
@%q2 bra ${end};
cvt.u64.u32 %y0, %n1;
add.u64 %y1, %in, %y0;
ld.global.b32 %n3, [%y1+${at}];
add.u32 %n2, ${to}, %n1;
st.shared.b32 [%n2], %n3;
add.u32 %n1, %n1, ${4 * threads};
bra ${again};
${end}:
fence.proxy.async;
bar.sync 0;`
}

/** Fills shared memory with a byte in each word, so that bytes that nothing writes are known. */
export const clear = (bytes: number, value = 0xa5a5a5a5, threads = 32): string => {
  const [again, end] = [label(), label()]
  return `shl.b32 %n1, %me, 2;
${again}:
setp.ge.u32 %q2, %n1, ${bytes};
@%q2 bra ${end};
add.u32 %n2, %smem, %n1;
mov.u32 %n3, ${value};
st.shared.b32 [%n2], %n3;
add.u32 %n1, %n1, ${4 * threads};
bra ${again};
${end}:
fence.proxy.async;
bar.sync 0;`
}

export const CLUSTER_SYNC = 'barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;'

/** Stores words in the output, each thread's beside each other. */
export const store = (registers: readonly string[], at = 0): string => {
  const bytes = 4 * registers.length
  const stores = registers.map((each, index) => `st.global.b32 [%y1+${at + 4 * index}], ${each};`)
  return [
    `mad.lo.u32 %n4, %rank, 32, %me;`,
    `mul.wide.u32 %y0, %n4, ${bytes};`,
    `add.u64 %y1, %out, %y0;`,
    ...stores,
  ].join('\n')
}
