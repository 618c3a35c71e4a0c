/**
 * A class that more than four are made of defines no fields: it declares them, and its constructor assigns them. Where V8
 * has seen more than four sorts of objects, Node 20 calls C for each field that a class defines, and a record into a new
 * event cost four times as much as soon as a program had streams, memory and modules, too.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

/** So many V8 tells apart. */
const MOST = 4

interface Class {
  readonly base: string | undefined
  readonly fields: readonly string[]
}

/** As it is compiled, where a declared field has left nothing behind. */
function classesIn(folder: string): ReadonlyMap<string, Class> {
  const classes = new Map<string, Class>()
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.js')) continue
    const source = readFileSync(join(folder, file), 'utf8')
    for (const [, name = '', base, body = ''] of source.matchAll(
      /^(?:export )?class (\w+)(?: extends (\w+))? \{\n(.*?)^\}$/gms,
    )) {
      const fields = [...body.matchAll(/^ {4}(#?\w+)(?:;| = )/gm)].map(([, field = '']) => field)
      classes.set(name, { base, fields })
    }
  }
  return classes
}

const classes = classesIn(join(root, 'dist', 'src'))

function madeOf(name: string): readonly string[] {
  const direct = [...classes].filter(([, { base }]) => base === name).map(([made]) => made)
  return direct.flatMap((made) => [made, ...madeOf(made)])
}

const common = [...classes.keys()].filter((name) => madeOf(name).length > MOST)

test('the bases of what the library owns are among those that are looked at', () => {
  for (const name of ['NativeResource', 'Allocation']) assert.ok(common.includes(name), name)
  assert.deepEqual(classes.get('EventImpl')?.fields.slice(0, 3), ['device', 'context', 'settings'])
})

for (const name of common) {
  test(`${name}, of which ${madeOf(name).length} classes are made, defines no fields`, () => {
    assert.deepEqual(classes.get(name)?.fields, [])
  })
}
