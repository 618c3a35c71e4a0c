/**
 * A program whose timers and clocks are fake once the library is loaded, as in a test of Jest, Vitest or node:test: each kind of wait has to
 * end. Started by waiting.test.ts on the simulator and on a fake GPU; prints the waits that have ended.
 */
import assert from 'node:assert/strict'
import { mock } from 'node:test'
import { Device, Stream } from 'cuda-streams'

const { setImmediate: turn } = globalThis
const nextTurn = (): Promise<void> => new Promise((resolve) => void turn(resolve))

const frozen = Object.assign((): [number, number] => [1, 0], { bigint: () => 1n })
mock.timers.enable({ apis: ['setTimeout', 'setImmediate', 'setInterval', 'Date'] })
Object.defineProperty(performance, 'now', { value: () => 1 })
Object.defineProperty(process, 'hrtime', { value: frozen })
Object.defineProperty(process, 'nextTick', { value: () => {} })
Object.defineProperty(globalThis, 'queueMicrotask', { value: () => {} })

const device = Device.get()
const stream = new Stream({ device })

const LARGE = 20 << 20
const buffer = device.alloc(LARGE, { stream })
const downloaded = await stream.fill(buffer, 7).download(buffer)
assert.ok(downloaded.length === LARGE && downloaded.every((byte) => byte === 7))
console.log('a large download')

let ran = false
stream.launchHostFunc(() => {
  ran = true
})
await stream.finished()
assert.ok(ran)
console.log('a host function')

const error = new Promise((resolve) => void process.once('uncaughtException', resolve))
stream.launchHostFunc(() => {
  throw new Error('of a host function')
})
assert.match(String(await error), /of a host function/)
console.log('an error of a host function')

const flags = device.allocPinned(64)
flags.bytes.fill(0)
stream.waitValue(flags, 1)
let isOver = false
const value = stream.finished().then(() => {
  isOver = true
})
// Until the thread sleeps between two polls: what it then waits for is nothing but a timer.
for (let turns = 0; turns < 1000; turns += 1) await nextTurn()
assert.ok(!isOver)
flags.bytes[0] = 1
await value
console.log('a value that JavaScript writes')

let settle = (): void => {}
stream.wait(
  new Promise<void>((resolve) => {
    settle = resolve
  }),
)
const behind = device.finished()
settle()
await behind
console.log('a promise')
