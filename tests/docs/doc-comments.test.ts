/** What callers can see says what it is: every export of every door, and every member of it, has a doc comment. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

/** Printing, which all have, and what launches use among themselves. */
const SAYS_ENOUGH = new Set(['toString', '[Symbol.toStringTag]', '[inspect.custom]', '[launchOn]'])

const DECLARATION = /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|function|const|let|enum) (\w+)/
const MEMBER = /^(?:(?:static|readonly|abstract|get|set) )*(\[[\w.]+\]|\w+)\??(?:[(<:]| =)/

/** The door's name and the file of its declarations. */
function doors(): readonly (readonly [name: string, path: string])[] {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly exports: Readonly<Record<string, string | { readonly types: string }>>
  }
  return Object.entries(exports).flatMap(([name, target]) =>
    typeof target === 'string' ? [] : [[name, join(root, target.types)] as const],
  )
}

/** For each file of declarations, which of its names the door lets out. */
function exportsOf(door: string): ReadonlyMap<string, ReadonlySet<string>> {
  const text = readFileSync(door, 'utf8')
  const own = text
    .split('\n')
    .flatMap((line) => (line.startsWith('export ') ? (DECLARATION.exec(line)?.[1] ?? []) : []))
  const found = new Map([[door, new Set(own)]])
  for (const [, list = '', from = ''] of text.matchAll(/export (?:type )?\{([^}]*)\} from '(\.[^']*)'/g)) {
    const path = join(dirname(door), from.replace(/\.js$/, '.d.ts'))
    const names = list.replace(/\btype /g, '').match(/\w+/g) ?? []
    found.set(path, new Set([...(found.get(path) ?? []), ...names]))
  }
  for (const [, from = ''] of text.matchAll(/^import '(\.[^']*)'/gm)) {
    const path = join(dirname(door), from.replace(/\.js$/, '.d.ts'))
    found.set(path, found.get(path) ?? new Set())
  }
  return found
}

/** What has no comment among the names given, their members, and what the file adds to classes of other files. */
export function undocumented(text: string, names: ReadonlySet<string>): readonly string[] {
  const missing: string[] = []
  let open: { readonly name: string; readonly indent: number } | undefined
  let previous = ''
  let last = ''
  for (const line of text.split('\n')) {
    const indent = line.search(/\S/)
    const code = line.trim()
    const commented = previous.endsWith('*/')
    const declared = DECLARATION.exec(code)?.[1]
    if (open === undefined && declared !== undefined && (indent > 0 || names.has(declared))) {
      if (indent === 0 && !commented && last !== declared) missing.push(declared)
      if (/\b(class|interface) .*\{$/.test(code)) open = { name: declared, indent }
      last = declared
    } else if (open !== undefined && indent === open.indent && code.startsWith('}')) {
      open = undefined
    } else if (open !== undefined && indent === open.indent + 4) {
      const member = MEMBER.exec(code)?.[1]
      const isOverload = member !== undefined && last === `${open.name}.${member}`
      if (member !== undefined) last = `${open.name}.${member}`
      if (member !== undefined && !commented && !isOverload && !SAYS_ENOUGH.has(member)) missing.push(last)
    }
    previous = code
  }
  return missing
}

describe('doc comments', () => {
  for (const [name, door] of doors()) {
    it(`of the door ${name}`, () => {
      const files = [...exportsOf(door)]
      assert.ok(files.reduce((sum, [, names]) => sum + names.size, 0) > 0, 'nothing is exported')
      const missing = files.flatMap(([path, names]) => undocumented(readFileSync(path, 'utf8'), names))
      assert.deepEqual(missing, [], 'these have no doc comment')
    })
  }

  it('are missed where there is none', () => {
    const text = `/** Yes. */
export declare class Seen {
    #private;
    readonly bare: number;
    /** Yes. */
    static from(a: number): Seen;
    static from(a: string): Seen;
    get bareToo(): string;
    readonly given = "a";
}
export interface Bare {
}
interface Inner {
    hidden: number;
}
declare module './other.js' {
    interface Other {
        added(): void;
    }
}`
    assert.deepEqual(undocumented(text, new Set(['Seen', 'Bare'])), [
      'Seen.bare',
      'Seen.bareToo',
      'Seen.given',
      'Bare',
      'Other.added',
    ])
  })
})
