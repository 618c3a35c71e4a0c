/** Code is loaded from the cache only where no other user could have written it: else there is no cache. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { cachedFile, readCached, writeCached } from '../../../src/cu/ptx-cache.js'
import { type CacheFolder, cacheFolder, readOwnFile } from '../../../src/foundation/native/cache-folder.js'
import { lacksNvrtc } from '../../helpers/nvrtc.js'
import { scratchFolder } from '../../helpers/scratch.js'

const skip = process.platform === 'win32' ? 'each user of Windows has folders of their own' : false
const folder = scratchFolder('cache-folder')
const user = process.getuid?.() ?? 0
let count = 0

/** A variable of the environment, for one test. */
function withVariable(context: TestContext, name: 'XDG_CACHE_HOME' | 'TMPDIR', value: string): void {
  const before = process.env[name]
  context.after(() => {
    if (before === undefined) delete process.env[name]
    else process.env[name] = before
  })
  process.env[name] = value
}

/** What the process does as another user. */
function asAnotherUser(act: () => void): void {
  const { getuid } = process
  Object.assign(process, { getuid: () => user + 1 })
  try {
    act()
  } finally {
    Object.assign(process, { getuid })
  }
}

function ownCache(context: TestContext): string {
  const cache = join(folder, `${count++}`)
  withVariable(context, 'XDG_CACHE_HOME', cache)
  return cache
}

const problemOf = (cache: CacheFolder): string | undefined => ('problem' in cache ? cache.problem : undefined)

test('the folder is made for this user alone, with the one within it', { skip }, (t) => {
  const cache = ownCache(t)
  const inner = join(cache, 'cuda-streams', 'cu')
  assert.deepEqual(cacheFolder('cu'), { folder: inner })
  for (const each of [inner, join(inner, '..')]) assert.equal(statSync(each).mode & 0o777, 0o700, each)
  assert.deepEqual(cacheFolder(), { folder: join(cache, 'cuda-streams') })
})

test('a folder of another user is no cache, nor one that others can write, nor what is no folder', { skip }, (t) => {
  const cache = join(ownCache(t), 'cuda-streams')
  mkdirSync(join(cache, 'cu'), { recursive: true, mode: 0o700 })
  assert.equal(problemOf(cacheFolder('cu')), undefined)
  asAnotherUser(() => {
    assert.equal(problemOf(cacheFolder('cu')), `${cache} belongs to user ${user}, and this is user ${user + 1}`)
  })
  for (const writable of [cache, join(cache, 'cu')]) {
    for (const mode of [0o770, 0o702]) {
      chmodSync(writable, mode)
      assert.equal(problemOf(cacheFolder('cu')), `${writable} can be written by other users`)
    }
    chmodSync(writable, 0o755)
    assert.equal(problemOf(cacheFolder('cu')), undefined)
  }
  const file = ownCache(t)
  writeFileSync(file, '')
  assert.match(problemOf(cacheFolder()) ?? '', /^(ENOTDIR|EEXIST)/)
})

test('a file of another user is not read, in whichever folder it lies', { skip }, () => {
  const path = join(folder, `${count++}`)
  writeFileSync(path, 'code', { mode: 0o600 })
  assert.deepEqual(readOwnFile(path), Buffer.from('code'))
  chmodSync(path, 0o666)
  assert.equal(readOwnFile(path), undefined)
  chmodSync(path, 0o600)
  asAnotherUser(() => assert.equal(readOwnFile(path), undefined))
  assert.equal(readOwnFile(join(folder, 'missing')), undefined)
})

test('a user without a folder has one in the temporary one, by its name and its owner', { skip }, (t) => {
  const temporary = join(folder, `${count++}`)
  mkdirSync(temporary)
  withVariable(t, 'XDG_CACHE_HOME', '')
  withVariable(t, 'TMPDIR', temporary)
  const cache = join(temporary, `cuda-streams-${user}`)
  const without = [() => '', () => assert.fail('the system knows no folder of this user')]
  for (const folderOfUser of without) assert.deepEqual(cacheFolder('', folderOfUser), { folder: cache })
  chmodSync(cache, 0o777)
  for (const folderOfUser of without) {
    assert.equal(problemOf(cacheFolder('', folderOfUser)), `${cache} can be written by other users`)
  }
  assert.deepEqual(
    cacheFolder('', () => temporary),
    { folder: join(temporary, '.cache', 'cuda-streams') },
  )
})

test('where there is no cache nothing is read and nothing is written', { skip: skip || lacksNvrtc() }, (t) => {
  const cache = join(ownCache(t), 'cuda-streams')
  const source = { text: '', file: 'a.cu', options: [] }
  const file = cachedFile(source, 'ptx')
  writeCached(file, Buffer.from('code'))
  assert.deepEqual(readCached(file), Buffer.from('code'))
  chmodSync(join(cache, 'cu'), 0o777)
  assert.equal(cachedFile(source, 'ptx'), undefined)
  assert.equal(readCached(undefined), undefined)
  writeCached(undefined, Buffer.from('code'))
  assert.equal(readdirSync(join(cache, 'cu')).length, 1)
  // The folder has gone since.
  const gone = join(cache, 'gone', 'code.ptx')
  writeCached(gone, Buffer.from('code'))
  assert.ok(!existsSync(gone))
})
