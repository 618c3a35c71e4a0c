/** Public calls at the end of the stack, where it runs over ("Maximum call stack size exceeded") in the midst of them. */
import assert from 'node:assert/strict'
import type { Simulation } from 'cuda-streams/sim'
import { CALLS } from './public-calls.js'
import { backendIn, stageIn } from './stage.js'

/** A promise is not known to be rejected before the stack is empty: so often a call that returns one is made. */
const PROMISES = 40

/** Calls it at the end of the stack, then in the frame before, and so on until it does not throw. */
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
  assert.ok(isDone, 'it threw, however much of the stack was left')
}

const isOverflow = (error: unknown): boolean => error instanceof RangeError && /call stack/.test(error.message)

/**
 * Makes one of the calls so, and asserts that it has done nothing where it threw, and all of it where it did not. `padding`
 * is how many frames of another length lie below, so that the stack ends at other places of the call; -1: at the beginning.
 */
export async function attempt(simulation: Simulation, name: string, padding: number): Promise<void> {
  const stage = stageIn(simulation)
  const { act, check, end } = CALLS[name]?.(stage) ?? assert.fail(`no call is named ${name}`)
  const results: unknown[] = []
  if (padding < 0) results.push(act())
  else {
    atTheEndOfTheStack(padding, () => {
      const result = act()
      results.push(result)
      if (!(result instanceof Promise)) return
      result.catch(() => {})
      if (results.length < PROMISES) throw new RangeError('once more')
    })
  }
  const settled = await Promise.allSettled(results)
  assert.ok(settled.some(({ status }) => status === 'fulfilled'))
  for (const one of settled) assert.ok(one.status === 'fulfilled' || isOverflow(one.reason))
  await stage.device.finished()
  await check?.()
  await end?.()
  for (const each of [stage.own, stage.theirs, stage.stream, stage.other]) each.close()
  stage.device.synchronize()
  const { hostFunctionsPending, waitsPending, damaged } = backendIn(simulation).machine
  assert.deepEqual([hostFunctionsPending, waitsPending, damaged], [0, 0, false])
}
