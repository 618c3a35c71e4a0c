/** docs/reference/api.md names all that each entry point exports, and nothing else: scripts/api-page.mjs writes it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

const OWN = /^export (?:declare )?(?:abstract )?(?:class|interface|type|function|const|let|enum) (\w+)/gm
const LIST = /^export (?:type )?\{([^}]*)\}/gm

/** What a file of declarations exports, types too. */
function exportsOf(declarations: string): readonly string[] {
  const own = [...declarations.matchAll(OWN)].map(([, name = '']) => name)
  const listed = [...declarations.matchAll(LIST)].flatMap(([, list = '']) =>
    list
      .split(',')
      .map((one) => one.trim().split(' ').at(-1) ?? '')
      .filter((name) => name !== ''),
  )
  return [...new Set([...own, ...listed])].sort()
}

/** The names that begin an item, and those of types, by the heading that they stand under. */
function namesByEntryPoint(markdown: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  let names: string[] = []
  for (const line of markdown.split('\n')) {
    const heading = /^## (.*)$/.exec(line)?.[1]
    if (heading !== undefined) {
      names = []
      found.set(heading, names)
    } else {
      const listed = /^(?:- (`\w+`):|Types: (.*)$)/.exec(line)
      for (const [, name = ''] of (listed?.[1] ?? listed?.[2] ?? '').matchAll(/`(\w+)`/g)) names.push(name)
    }
  }
  return found
}

function entryPoints(): readonly (readonly [name: string, path: string])[] {
  const { name, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly name: string
    readonly exports: Readonly<Record<string, string | { readonly types: string }>>
  }
  // An entry point that registers something exports nothing.
  return Object.entries(exports).flatMap(([path, target]) =>
    typeof target === 'string' || /register$/.test(path)
      ? []
      : [[join(name, path).replaceAll('\\', '/'), join(root, target.types)] as const],
  )
}

describe('docs/reference/api.md', () => {
  const page = readFileSync(join(root, 'docs', 'reference', 'api.md'), 'utf8')
  const named = namesByEntryPoint(page)

  it('is as scripts/api-page.mjs writes it', () => {
    const script = join(root, 'scripts', 'api-page.mjs')
    const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  })

  it('has a part for each entry point', () => {
    assert.deepEqual(
      [...named.keys()],
      entryPoints().map(([name]) => name),
    )
  })

  for (const [entryPoint, path] of entryPoints()) {
    it(`names every export of ${entryPoint} once, and nothing else`, () => {
      const exported = exportsOf(readFileSync(path, 'utf8'))
      assert.ok(exported.length > 0, 'nothing is exported')
      assert.deepEqual([...(named.get(entryPoint) ?? [])].sort(), exported)
    })
  }
})

it('exports are found, however they are written', () => {
  const declarations = `
export { type A, B, C as D, } from './a.js';
export type { E } from './b.js';
export interface F { readonly inner: number; }
export declare abstract class G {}
export declare function h(): void;
export declare function h(a: number): void;
export declare const i: unique symbol;
interface Hidden {}
export {};
`
  assert.deepEqual(exportsOf(declarations), ['A', 'B', 'D', 'E', 'F', 'G', 'h', 'i'])
})
