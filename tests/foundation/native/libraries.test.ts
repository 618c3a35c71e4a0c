/** Shared libraries: what is there, what is not, and what the loader says. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { callAt } from '../../../src/foundation/native/c-functions.js'
import { layer } from '../../../src/foundation/native/layer.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { fileOf, SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { scratchFolder } from '../../helpers/scratch.js'
import { compiled, skip } from './compile.js'

const namesLibraries = process.platform === 'win32' && 'libraries of Windows name the library of each symbol'

/** What the loader says of a file that is not there, and of one that is no library. */
const [ABSENT, NO_LIBRARY] =
  process.platform === 'win32'
    ? [/Windows error 126: /, /Windows error (11|193): /]
    : [/cannot open shared object file/, /text\.so: (file too short|invalid ELF header)/]

describe('a shared library', { skip }, () => {
  const file = compiled('library', 'int there(void) { return 5; }')

  test('has the functions that it has, and no others', () => {
    const library = SharedLibrary.open(file)
    assert.ok((library.find('there') ?? 0) > 0)
    assert.equal(library.find('elsewhere'), undefined)
    assert.equal(library.functions({ there: 'void' }).there(), 5)
    assert.throws(() => library.functions({ there: 'void', elsewhere: 'void' }), /no function elsewhere/)
  })

  test('that is opened again is the same', () => {
    assert.equal(SharedLibrary.open(file).find('there'), SharedLibrary.open(file).find('there'))
  })

  test('does not lend its symbols to others', () => {
    SharedLibrary.open(file)
    assert.equal(SharedLibrary.ofProcess.find('there'), undefined)
    assert.ok((SharedLibrary.ofProcess.find('malloc') ?? 0) > 0)
  })

  test('is told by a function of it', () => {
    assert.equal(fileOf(SharedLibrary.open(file), 'there'), file)
    assert.equal(fileOf(SharedLibrary.open(file), 'elsewhere'), undefined)
  })

  test('lends its symbols to others if it was opened for all', { skip: namesLibraries }, () => {
    const lending = compiled('lending', 'int lent(void) { return 6; }')
    SharedLibrary.open(lending)
    assert.equal(SharedLibrary.ofProcess.find('lent'), undefined)
    assert.equal(SharedLibrary.openForAll(lending).functions({ lent: 'void' }).lent(), 6)
    assert.equal(SharedLibrary.ofProcess.functions({ lent: 'void' }).lent(), 6)
    assert.throws(() => SharedLibrary.openForAll('libnonesuch.so.1'), ABSENT)
  })

  test('that does not exist, or is none, is refused with the message of the loader', () => {
    const text = join(scratchFolder('libraries'), 'text.so')
    writeFileSync(text, 'no library')
    assert.throws(() => SharedLibrary.open('libnonesuch.so.1'), ABSENT)
    assert.throws(() => SharedLibrary.open(text), NO_LIBRARY)
    assert.throws(() => SharedLibrary.open('x'.repeat(5000)), /./)
    assert.throws(() => Reflect.apply(layer().open, undefined, [5]), /A path is text/)
  })
})

test('the deleter of a tensor leaves its sign in the first word, and nowhere else', { skip }, () => {
  const { address, uint64 } = new NativeMemory(64)
  callAt(layer().functions['deleteTensor'] ?? 0, address)
  assert.deepEqual([...uint64], [2n ** 64n - 1n, 0n, 0n, 0n, 0n, 0n, 0n, 0n])
})
