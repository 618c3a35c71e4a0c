/** Colours of a timeline, the same on the page and in a picture: on a light ground, and on a dark one. */
import { RowKind } from './kinds.js'

/** The contrast of text is at least 4.5, of bars and hatching 3: tests/timeline/colours.test.ts has what stands on what. */
export const COLOURS = {
  background: ['#ffffff', '#12151b'],
  panel: ['#f7f8fa', '#181c24'],
  band: ['#f0f2f6', '#1d222b'],
  line: ['#e0e4ea', '#2b323d'],
  text: ['#1c2330', '#e4e8ef'],
  faint: ['#576273', '#8f9bad'],
  accent: ['#0b57d0', '#8ab4ff'],
  critical: ['#d63a30', '#ff7b6e'],
  arrow: ['#7d8797', '#8793a6'],
  gap: ['#a8380a', '#ff9d5c'],
  onBar: ['#ffffff', '#0b0e13'],
  kernel0: ['#3f66d6', '#86a8ff'],
  kernel1: ['#0b78b0', '#5cc3f5'],
  kernel2: ['#6f5bd0', '#b4a3ff'],
  kernel3: ['#4e7191', '#9fb8d0'],
  kernel4: ['#2c4a9a', '#7d93e6'],
  kernel5: ['#0f7a8d', '#5fc9db'],
  copy: ['#0c7d62', '#4fd1ab'],
  fill: ['#557c18', '#a6d05a'],
  hostFunction: ['#a35e0b', '#f0b35a'],
  graph: ['#8a46b8', '#d29bf5'],
  quiet: ['#667283', '#8b97a9'],
  fault: ['#c22a2a', '#ff6b6b'],
  blocked: ['#a3536b', '#e58fa7'],
  wait: ['#7d8898', '#66738a'],
  nullStream: ['#b87410', '#b5832f'],
} as const satisfies Readonly<Record<string, readonly [light: string, dark: string]>>
export type ColourName = keyof typeof COLOURS

/** What bars can be drawn in. The last two are hatched: nothing runs there. */
export const BAR_COLOURS = [
  'kernel0',
  'kernel1',
  'kernel2',
  'kernel3',
  'kernel4',
  'kernel5',
  'copy',
  'fill',
  'hostFunction',
  'graph',
  'quiet',
  'fault',
  'blocked',
  'wait',
  'nullStream',
] as const satisfies readonly ColourName[]
const KERNEL_COLOURS = 6
export const WAIT = BAR_COLOURS.indexOf('wait')
export const NULL_STREAM = BAR_COLOURS.indexOf('nullStream')
export const HOST_FUNCTION = BAR_COLOURS.indexOf('hostFunction')
export const QUIET = BAR_COLOURS.indexOf('quiet')

const OF_KIND: Readonly<Record<number, number>> = {
  [RowKind.COPY]: BAR_COLOURS.indexOf('copy'),
  [RowKind.FILL]: BAR_COLOURS.indexOf('fill'),
  [RowKind.HOST_FUNCTION]: HOST_FUNCTION,
  [RowKind.GRAPH]: BAR_COLOURS.indexOf('graph'),
  [RowKind.FAULT]: BAR_COLOURS.indexOf('fault'),
  [RowKind.SYNCHRONIZE]: BAR_COLOURS.indexOf('blocked'),
  [RowKind.AWAIT]: BAR_COLOURS.indexOf('blocked'),
  [RowKind.WAIT]: WAIT,
}

/** The place in BAR_COLOURS of each row. Kernels of one name have one colour, in the order in which they first come. */
export function barColours(rows: { readonly kind: Uint8Array; readonly name: Uint32Array }): Uint8Array {
  const { kind, name } = rows
  const kernels = new Map<number, number>()
  const colours = new Uint8Array(kind.length)
  for (let row = 0; row < kind.length; row += 1) {
    const what = kind[row] ?? 0
    const named = name[row] ?? 0
    if (what === RowKind.KERNEL && !kernels.has(named)) kernels.set(named, kernels.size % KERNEL_COLOURS)
    colours[row] = (what === RowKind.KERNEL ? kernels.get(named) : OF_KIND[what]) ?? QUIET
  }
  return colours
}
