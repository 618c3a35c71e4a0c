/**
 * A stack that runs over ("Maximum call stack size exceeded") in the midst of a public call: the call has done nothing
 * where it throws, and what it has done it has done whole where it does not.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { simulate } from 'cuda-streams/sim'
import { CALLS } from './public-calls.js'
import { backendIn, isNoMore, left, stageIn } from './stage.js'

/** Frames of different lengths below, so that the stack ends at other places of the call. */
const PADDINGS = 8

/** Tries it at the end of the stack, then in the frame before, and so on until it does not throw. */
function atTheEndOfTheStack(padding: number, act: () => void): void {
  let isDone = false
  const dig = (...spare: unknown[]): void => {
    try {
      dig(...spare)
    } catch (error) {
      if (isDone) throw error
      act()
      isDone = true
      throw error
    }
  }
  const pad = (left: number): void => {
    if (left > 0) pad(left - 1)
    else dig(...Array(padding % 3))
  }
  try {
    pad(padding)
  } catch {
    // The stack has run over, as it was to.
  }
  assert.ok(isDone)
}

const isOverflow = (error: unknown): boolean => error instanceof RangeError && /call stack/.test(error.message)

describe('a stack that runs over', () => {
  for (const [name, prepare] of Object.entries(CALLS)) {
    if (/finished|download|upload/.test(name) && process.env['ASYNC'] === undefined) continue
    it(`in ${name} leaves everything as it was`, { timeout: 20_000 }, async () => {
      const simulation = simulate()
      const run = async (padding: number): Promise<void> => {
        const stage = stageIn(simulation)
        const attempt = prepare(stage)
        const results: unknown[] = []
        if (padding < 0) results.push(attempt.act())
        else {
          atTheEndOfTheStack(padding, () => {
            const result = attempt.act()
            results.push(result)
            if (result instanceof Promise) {
              // Whether it was refused is to be known later: the frames before try as well.
              result.catch(() => {})
              if (results.length < 40) throw new RangeError('once more')
            }
          })
        }
        const settled = await Promise.allSettled(results)
        let isDone = false
        for (const one of settled) {
          if (one.status === 'fulfilled') isDone = true
          else assert.ok(isOverflow(one.reason), String(one.reason))
        }
        assert.ok(isDone)
        await stage.device.finished()
        await attempt.check?.()
        await attempt.end?.()
        for (const each of [stage.own, stage.theirs, stage.stream, stage.other]) each.close()
        stage.device.synchronize()
      }
      await run(-1)
      const before = await left(simulation, () => false)
      for (let padding = 0; padding < PADDINGS; padding += 1) await run(padding)
      const after = await left(simulation, (now) => isNoMore(now, before))
      // Events of the library's own may be left, and what was made for an attempt that then failed; memory must not.
      if (/close/.test(name)) assert.ok(after.bytes <= before.bytes, `${after.bytes} bytes are left`)
      assert.equal(backendIn(simulation).machine.hostFunctionsPending, 0)
      assert.equal(backendIn(simulation).machine.waitsPending, 0)
    })
  }
})
