/** A rank that is killed at any moment: the others end by themselves, with an error that says so, and nothing is left behind. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runs } from '../helpers/effort.js'
import { root } from '../helpers/root.js'
import { freePort } from './run-ranks.js'

const RANKS = 3
const ROUNDS = runs({ quick: 1, normal: 2, nightly: 100 })
/** Longer than it takes to notice a rank that is gone, and to give up a rank that never came. */
const LONGEST = 45_000
const skip = process.platform === 'linux' ? false : 'processes share simulated memory on Linux only'

const filesInMemory = (): number => readdirSync('/dev/shm').filter((name) => name.includes('cuda-streams')).length

test('a rank that is killed at a random moment holds nobody up', { skip }, async (context) => {
  const before = filesInMemory()
  const codes = new Map<string, number>()
  for (let round = 0; round < ROUNDS; round += 1) {
    const RENDEZVOUS_PORT = String(await freePort())
    const children = Array.from({ length: RANKS }, (_, rank) => {
      const env = {
        RANK: `${rank}`,
        LOCAL_RANK: '0',
        WORLD_SIZE: `${RANKS}`,
        RENDEZVOUS_PORT,
        CUDA_STREAMS_DRIVER: 'sim',
      }
      const path = join(root, 'dist', 'examples', 'ranks', 'train.js')
      return spawn(process.execPath, [path], { env: { ...process.env, ...env }, stdio: 'ignore', timeout: LONGEST })
    })
    const ended = Promise.all(
      children.map(async (child) => (await once(child, 'exit')) as [number | null, string | null]),
    )
    const after = 200 + ((round * 237) % 1000)
    const victim = round % RANKS
    setTimeout(() => children[victim]?.kill('SIGKILL'), after)
    const all = await ended
    for (const [rank, [code, signal]] of all.entries()) {
      if (rank === victim) continue
      assert.equal(
        signal,
        null,
        `rank ${rank} did not end by itself, after rank ${victim} was killed after ${after} ms`,
      )
      codes.set(`${code}`, (codes.get(`${code}`) ?? 0) + 1)
    }
  }
  context.diagnostic(`exit codes of the others: ${JSON.stringify(Object.fromEntries(codes))}`)
  assert.equal(filesInMemory(), before)
})
