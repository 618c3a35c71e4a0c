/**
 * Plays random programs on a GPU and on the simulator and says where they differ:
 *
 *   node dist/tests/differential/run.js --programs 20000 --seed 1 --seconds 400 --record FILE
 *
 * Options: see OPTIONS. The programs are played by child processes (batch.ts), which are ended when one hangs.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import fc from 'fast-check'
import type { Message, Order } from './batch.js'
import { type Header, type Recorded, save } from './corpus.js'
import { playable } from './programs.js'
import { encode, listing } from './steps.js'

const OPTIONS = {
  /** How many programs. */
  programs: { type: 'string', default: '20000' },
  /** Of fast-check: which programs. */
  seed: { type: 'string', default: '1' },
  /** Stop after so many seconds, whatever is left. */
  seconds: { type: 'string', default: '400' },
  /** A program that makes no progress for so many seconds hangs. */
  hang: { type: 'string', default: '20' },
  /** Child processes at one time. */
  jobs: { type: 'string', default: '1' },
  /** Programs in one child process. */
  batch: { type: 'string', default: '1000' },
  devices: { type: 'string', default: '1' },
  /** Where to save what the GPU did, of programs without a difference. */
  record: { type: 'string' },
  /** Save no more programs than this. */
  keep: { type: 'string', default: '4000' },
  /** 'cuda', or 'sim' to try the harness, and to record, without a GPU. */
  against: { type: 'string', default: 'cuda' },
  /** One program to play, as JSON or in a file. */
  only: { type: 'string' },
} as const

const MOST_SHOWN_OF_A_KIND = 1
/** Each batch has a seed of its own, which is none of another run's. */
const SEEDS_APART = 100_003

const { values } = parseArgs({ options: OPTIONS })
const total = Number(values.programs)
const seed = Number(values.seed)
const batchSize = Number(values.batch)
const started = performance.now()
const deadline = started + Number(values.seconds) * 1000
const elapsed = (): number => (performance.now() - started) / 1000

let played = 0
let hung = 0
let machine = ''
const kinds = new Map<string, number>()
const recorded: Recorded[] = []

/** Returns up to which program it came, and whether it went on to its end. */
function playBatch(order: Order): Promise<{ readonly until: number; readonly over: boolean }> {
  return new Promise((resolve) => {
    const child: ChildProcess = fork(fileURLToPath(new URL('batch.js', import.meta.url)))
    let current: Extract<Message, { kind: 'plays' }> | undefined
    let until = order.from
    let over = false
    let lost = false
    let killed = false
    let hangs: NodeJS.Timeout | undefined
    const watch = (): void => {
      clearTimeout(hangs)
      hangs = setTimeout(() => {
        hung += 1
        console.log(`\n=== a program HANGS (seed ${order.seed}, program ${current?.index})`)
        showHanging(order, current)
        killed = true
        child.kill('SIGKILL')
      }, Number(values.hang) * 1000)
    }
    const stop = setTimeout(() => child.kill('SIGKILL'), Math.max(0, deadline - performance.now()))
    watch()
    child.on('message', (message: Message) => {
      watch()
      switch (message.kind) {
        case 'ready':
          machine = message.machine
          break
        case 'cannot':
          console.log(`nothing is played: ${message.why}`)
          process.exitCode = 2
          break
        case 'plays':
          current = message
          break
        case 'played':
          played += message.until - until
          until = message.until
          if (recorded.length < Number(values.keep)) recorded.push(...message.recorded)
          break
        case 'differs':
          showDifference(order, message)
          break
        case 'lost':
        case 'over':
          over = message.kind === 'over'
          lost = !over
          // It ends by itself, unless something keeps it.
          clearTimeout(hangs)
          hangs = setTimeout(() => child.kill('SIGKILL'), 5000)
          break
      }
    })
    child.once('exit', (code, signal) => {
      clearTimeout(hangs)
      clearTimeout(stop)
      if (!over && !lost && performance.now() < deadline && process.exitCode !== 2) {
        if (!killed) {
          console.log(`\n=== the process ended (${code ?? signal}) at program ${current?.index} of seed ${order.seed}`)
          showHanging(order, current)
        }
        if (current !== undefined) {
          played += Math.max(0, current.index + 1 - until)
          until = Math.max(until, current.index + 1)
        } else process.exitCode = 1
      }
      resolve({ until, over })
    })
    child.send(order)
  })
}

function showDifference(order: Order, message: Extract<Message, { kind: 'differs' }>): void {
  const seen = (kinds.get(message.signature) ?? 0) + 1
  kinds.set(message.signature, seen)
  if (seen > MOST_SHOWN_OF_A_KIND) return
  console.log(`\n=== a difference (seed ${order.seed}, program ${message.index})`)
  console.log(message.listing)
  console.log(message.text)
  console.log(`--only '${message.written}'`)
}

/** The program in progress: it came with the message while shrinking, else it is generated again. */
function showHanging(order: Order, current: Extract<Message, { kind: 'plays' }> | undefined): void {
  if (current === undefined) console.log('no program had begun')
  else if (current.listing !== undefined) console.log(`${current.listing}\n--only '${current.written}'`)
  else if (order.only !== undefined) console.log('the only one')
  else {
    let index = -1
    fc.check(
      fc.property(playable(order.devices), (program) => {
        index += 1
        if (index === current.index) console.log(`${listing(program)}\n--only '${JSON.stringify(encode(program))}'`)
      }),
      { seed: order.seed, numRuns: current.index + 1 },
    )
  }
}

async function playAll(): Promise<void> {
  const common = {
    devices: Number(values.devices),
    against: values.against === 'sim' ? ('sim' as const) : ('cuda' as const),
    records: values.record !== undefined,
  }
  if (values.only !== undefined) {
    const text = values.only.startsWith('[') ? values.only : readFileSync(values.only, 'utf8')
    await playBatch({ ...common, seed, from: 0, until: 1, only: JSON.parse(text) })
    return
  }
  let next = 0
  const work = async (): Promise<void> => {
    while (next * batchSize < total && performance.now() < deadline && process.exitCode === undefined) {
      const batch = next
      next += 1
      const until = Math.min(batchSize, total - batch * batchSize)
      let from = 0
      while (from < until && performance.now() < deadline && process.exitCode === undefined) {
        const result = await playBatch({ ...common, seed: (seed * SEEDS_APART + batch) | 0, from, until })
        from = result.over ? until : result.until
      }
    }
  }
  await Promise.all(Array.from({ length: Number(values.jobs) }, work))
}

function report(): void {
  const differing = [...kinds.values()].reduce((sum, count) => sum + count, 0)
  const rate = (played / elapsed()).toFixed(0)
  console.log(
    `${elapsed().toFixed(0)} s: ${played} programs, ${rate} a second, ${differing} differ in ${kinds.size} way(s), ${hung} hang`,
  )
}

function header(): Header {
  let driverVersion = 'not known'
  try {
    const args = ['--query-gpu=driver_version', '--format=csv,noheader']
    driverVersion = execFileSync('nvidia-smi', args, { encoding: 'utf8' }).split('\n')[0]?.trim() ?? driverVersion
  } catch {
    // It is only named in the header.
  }
  return {
    machine,
    driverVersion,
    recorded: new Date().toISOString().slice(0, 10),
    platform: `${process.platform} ${process.arch}, Node ${process.version}`,
  }
}

const progress = setInterval(report, 10_000)
await playAll()
clearInterval(progress)
report()
for (const [kind, count] of [...kinds].sort((a, b) => b[1] - a[1])) console.log(`${String(count).padStart(6)}  ${kind}`)
if (values.record !== undefined && recorded.length > 0) {
  const kept = recorded.slice(0, Number(values.keep))
  save(values.record, header(), kept)
  console.log(`${kept.length} programs recorded in ${values.record}`)
}
if ((kinds.size > 0 || hung > 0) && process.exitCode === undefined) process.exitCode = 1
