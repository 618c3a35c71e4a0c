/** What is read on the page and in a picture can be read: contrasts as WCAG 2 counts them, in light and in dark. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BAR_COLOURS, COLOURS, type ColourName, NULL_STREAM, WAIT } from '../../../src/tools/timeline/kinds.js'

const GROUNDS = ['background', 'panel', 'band'] as const
const BARS = BAR_COLOURS.filter((_, place) => place < Math.min(WAIT, NULL_STREAM))
/** A pressed row of the page: so much of the colour on the ground. */
const TINTS: readonly (readonly [text: ColourName, tint: ColourName, share: number, ground: ColourName])[] = [
  ['text', 'gap', 0.09, 'background'],
  ['faint', 'gap', 0.09, 'background'],
  ['gap', 'gap', 0.09, 'background'],
  ['text', 'accent', 0.1, 'panel'],
  ['faint', 'accent', 0.1, 'panel'],
  ['gap', 'accent', 0.1, 'panel'],
  ['text', 'accent', 0.12, 'background'],
]

type Colour = readonly [red: number, green: number, blue: number]
const read = (name: ColourName, scheme: 0 | 1): Colour => {
  const [red = 0, green = 0, blue = 0] =
    COLOURS[name][scheme].match(/[0-9a-f]{2}/g)?.map((part) => Number.parseInt(part, 16)) ?? []
  return [red, green, blue]
}
const mixed = (over: Colour, share: number, ground: Colour): Colour => {
  const [red, green, blue] = ground.map((value, at) => value + ((over[at] ?? 0) - value) * share)
  return [red ?? 0, green ?? 0, blue ?? 0]
}
function luminance(colour: Colour): number {
  const linear = colour.map((value) => {
    const part = value / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * (linear[0] ?? 0) + 0.7152 * (linear[1] ?? 0) + 0.0722 * (linear[2] ?? 0)
}
function contrast(a: Colour, b: Colour): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return ((light ?? 0) + 0.05) / ((dark ?? 0) + 0.05)
}

for (const scheme of [0, 1] as const) {
  describe(`colours on a ${scheme === 0 ? 'light' : 'dark'} ground`, () => {
    const check = (what: string, a: Colour, b: Colour, least: number): void =>
      assert.ok(contrast(a, b) >= least, `${what}: ${contrast(a, b).toFixed(2)}, wanted ${least}`)

    it('has text that can be read on every ground', () => {
      for (const ground of GROUNDS) {
        for (const text of ['text', 'faint', 'accent'] as const) {
          check(`${text} on ${ground}`, read(text, scheme), read(ground, scheme), 4.5)
        }
      }
      for (const ground of ['background', 'panel'] as const)
        check(`gap on ${ground}`, read('gap', scheme), read(ground, scheme), 4.5)
      check('the tooltip', read('background', scheme), read('text', scheme), 4.5)
      check('what is measured', read('background', scheme), read('accent', scheme), 4.5)
      for (const [text, tint, share, ground] of TINTS) {
        const behind = mixed(read(tint, scheme), share, read(ground, scheme))
        check(`${text} on ${ground} with ${tint}`, read(text, scheme), behind, 4.5)
      }
    })

    it('has text that can be read on every bar', () => {
      for (const bar of BARS) check(`a name on ${bar}`, read('onBar', scheme), read(bar, scheme), 4.5)
    })

    it('has bars, hatching and marks that are seen', () => {
      for (const what of [...BAR_COLOURS, 'critical', 'gap', 'accent'] as const) {
        check(`${what} on a band`, read(what, scheme), read('band', scheme), 3)
      }
    })
  })
}
