// What is stored of the lessons' kernels belongs together: the source, the PTX, what the compiler says of it, and the declarations.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { declarationText } from '../../../dist/src/cu/cu-module.js'
import { readKernelFacts } from '../../../dist/src/ptx/ptx.js'

const lessons = join(dirname(dirname(fileURLToPath(import.meta.url))), 'lessons')
const read = (name) => readFileSync(join(lessons, name), 'utf8')
const KERNELS = JSON.parse(read('kernels.json'))
const files = readdirSync(lessons).filter((name) => name.endsWith('.cu'))
const AGAIN = 'node scripts/ptx-kernels.mjs lessons, in the root, makes it again'

describe('the kernels of the lessons', () => {
  it('are all stored, and no others', () => {
    assert.deepEqual(Object.keys(KERNELS).sort(), files.sort(), AGAIN)
    for (const name of files)
      assert.ok(read('kernel-files.ts').includes(`'./${name}?text'`), `kernel-files.ts has ${name}`)
    for (const name of readdirSync(lessons).filter((one) => /\.(?:ptx|d\.cu\.ts)$/.test(one)))
      assert.ok(existsSync(join(lessons, name.replace(/\.(?:ptx|d\.cu\.ts)$/, '.cu'))), `${name} has a source`)
  })

  for (const name of files) {
    it(`${name} has the declarations that a plug-in would write, and the names, places and parameters of its source and PTX`, () => {
      const kernels = KERNELS[name]
      const ptx = read(name.replace(/cu$/, 'ptx'))
      const made = declarationText({ file: name, ptx, cubins: {}, kernels, structs: [] })
      assert.equal(read(name.replace(/cu$/, 'd.cu.ts')), made, AGAIN)
      const facts = readKernelFacts(ptx)
      assert.deepEqual(
        kernels.map((kernel) => kernel.name),
        [...facts.keys()],
        AGAIN,
      )
      const lines = read(name).split('\n')
      for (const { name: kernel, signature, parameterNames, line, column } of kernels) {
        assert.ok(
          lines[line - 1].slice(column - 1).startsWith(`${kernel}(`),
          `${kernel} is at ${line}:${column}: ${AGAIN}`,
        )
        assert.equal(facts.get(kernel).parameters.length, signature.length)
        for (const parameter of parameterNames) assert.match(lines[line - 1], new RegExp(`\\b${parameter}\\b`))
      }
    })
  }
})
