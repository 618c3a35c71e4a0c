/**
 * Blocks in every way: while the program starts, which is allowed, and in a turn of the event loop. Says what came of it. With the argument
 * 'early' it only loads code, in a turn of the event loop and before work is queued.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { Device, defineKernel, Module } from 'cuda-streams'

const ptx = (name: string): string =>
  `.version 8.0\n.target sm_75\n.address_size 64\n.visible .entry ${name}()\n{\n\tret;\n}\n`
const device = Device.current()
if (process.argv[2] === 'early') {
  await turn()
  Module.load(ptx('early')).close()
  console.log('loaded')
  process.exit()
}
const stream = device.createStream()
const pinned = device.allocPinned(16)
const event = stream.fill(pinned, 1).record()

const calls: Readonly<Record<string, () => void>> = {
  'stream.synchronize()': () => stream.fill(pinned, 2).synchronize(),
  'event.synchronize()': () => event.synchronize(),
  'device.synchronize()': () => device.synchronize(),
  'device.drainHostFunctions()': () => device.drainHostFunctions(),
  'queuing more work': () => {
    const full = device.createStream()
    for (let queued = 0; queued < 1500; queued += 1) full.launchHostFunc(() => {})
  },
}

const define = (name: string) => defineKernel({ name, ptx: ptx(name), signature: [] })
const launch = (name: string) => (): unknown => stream.launch(define(name), { grid: 1, block: 1 })
/** What is never reported, in a turn of the event loop. */
const never: Readonly<Record<string, () => unknown>> = {
  'a kernel that was prepared': async () => {
    const kernel = await define('prepared').prepare(device)
    stream.launch(kernel, { grid: 1, block: 1 })
  },
  'two kernels prepared at once': async () => {
    const [kernel] = await Promise.all([define('one').prepare(device), define('two').prepare(device)])
    stream.launch(kernel, { grid: 1, block: 1 })
  },
}

say({ 'loading a kernel at its first launch': launch('first') }, 'while the program starts')
for (const call of Object.values(calls)) call()
await turn()
for (const [name, call] of Object.entries(never)) {
  try {
    await call()
    console.log(`${name}: never`)
  } catch (error) {
    console.log(`${name}: ${String(error)}`)
  }
}
await device.finished()
say({
  'loading a kernel at its first launch': launch('second'),
  'loading code, which waits for the whole device,': () => Module.load(ptx('loaded')).close(),
  ...calls,
})
await device.finished()
console.log('end')

function say(calls: Readonly<Record<string, () => unknown>>, when = ''): void {
  for (const [name, call] of Object.entries(calls)) {
    let came = 'passed'
    // The same place is told of once.
    for (let times = 0; times < 2; times += 1) {
      try {
        call()
      } catch (error) {
        came = String((error as { readonly code?: unknown }).code)
      }
    }
    console.log(`${name}: ${came}${when && ` ${when}`}`)
  }
}
