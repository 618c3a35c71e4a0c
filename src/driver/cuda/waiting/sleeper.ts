/**
 * How a thread passes the time between two looks at the GPU.
 *
 * Its event loop does not sleep at all for a moment, then for a fixed share of the time already waited. A wait of any length is noticed late by that share at most, and costs a number of looks that grows
 * with the logarithm of its length. No thread waits for anything, so none can be in the way when the process ends.
 */
import { isMainThread } from 'node:worker_threads'
import type { Sleeper } from '../../loop-pump.js'
import { koffi, NativeMemory } from '../libcuda/native.js'

const MICROSECOND = 1_000n
const MILLISECOND = 1_000_000n
/** How long the loop polls before it first sleeps. */
const POLL_FOR = 200n * MICROSECOND
const SHORTEST = 50n * MICROSECOND
const LONGEST = 20n * MILLISECOND
const SHARE = 32n

/** The program may put fake timers in the place of these, and its waits must end all the same. */
const { setImmediate, setTimeout, clearTimeout } = globalThis

const CLOCK_MONOTONIC = 1
const TFD_NONBLOCK_CLOEXEC = 0o2004000

export class BackOffSleeper implements Sleeper {
  polls = true
  #since: bigint | undefined
  /** The number of sleeps so far; the latest may be forgotten. */
  #sleeps = 0

  /**
   * A worker has Node's own timers: where one is terminated at the moment in which the file is ready, koffi cannot call
   * JavaScript any more, and aborts the process. So have Bun and Deno: they have no libuv to watch a file.
   */
  constructor(private readonly timer: Timer = canWatchFiles() ? new TimerFd() : new LoopTimer()) {}

  sleep(wake: () => void): void {
    const now = process.hrtime.bigint()
    this.#since ??= now
    const waited = now - this.#since
    this.polls = waited < POLL_FOR
    if (this.polls) {
      this.#sleeps += 1
      const nth = this.#sleeps
      setImmediate(() => {
        if (nth === this.#sleeps) wake()
      })
      return
    }
    const wanted = waited / SHARE
    this.timer.start(wanted < SHORTEST ? SHORTEST : wanted > LONGEST ? LONGEST : wanted, wake)
  }

  cancel(): void {
    this.polls = true
    this.#since = undefined
    // Not cleared: once an immediate has thrown, Node fails for good if the one that comes next is cleared.
    this.#sleeps += 1
    this.timer.stop()
  }
}

const canWatchFiles = (): boolean =>
  process.platform === 'linux' && isMainThread && !('bun' in process.versions) && !('deno' in process.versions)

interface Timer {
  start(nanoseconds: bigint, wake: () => void): void
  stop(): void
}

/** Node's own timers: a millisecond at least. */
class LoopTimer implements Timer {
  #timeout: NodeJS.Timeout | undefined

  start(nanoseconds: bigint, wake: () => void): void {
    this.#timeout = setTimeout(wake, Number(nanoseconds / MILLISECOND))
  }

  stop(): void {
    clearTimeout(this.#timeout)
  }
}

/** Linux's timer that is a file: the event loop watches it, and it counts in microseconds. */
class TimerFd implements Timer {
  readonly #memory = new NativeMemory(32)
  readonly #settime: (fd: number, flags: number, value: number, old: number) => number
  readonly #fd: number
  readonly #watch: { start: (callback: () => void) => void; stop: () => void }
  #isWatching = false

  constructor() {
    const libc = koffi().load(null)
    const create = libc.func('timerfd_create', 'int', ['int', 'int'])
    this.#settime = libc.func('timerfd_settime', 'int', ['int', 'int', 'uintptr_t', 'uintptr_t'])
    this.#fd = create(CLOCK_MONOTONIC, TFD_NONBLOCK_CLOEXEC) as number
    // When the thread's JavaScript ends, however it ends; things made later, as the watch, are taken down before.
    const addHook = libc.func('napi_add_env_cleanup_hook', 'int', ['void *', 'uintptr_t', 'uintptr_t'])
    addHook(koffi().node.env, Number(libc.symbol('close')), this.#fd)
    const handle = koffi().node.poll(this.#fd, { readable: true }, () => {})
    handle.stop()
    this.#watch = { start: (callback) => handle.start({ readable: true }, callback), stop: () => handle.stop() }
  }

  start(nanoseconds: bigint, wake: () => void): void {
    this.#set(nanoseconds)
    this.#isWatching = true
    this.#watch.start(() => {
      this.stop()
      wake()
    })
  }

  /** It is called at the end of each wait, and to stop what does not watch costs a microsecond. */
  stop(): void {
    if (!this.#isWatching) return
    this.#isWatching = false
    this.#watch.stop()
  }

  #set(nanoseconds: bigint): void {
    this.#memory.uint64[2] = nanoseconds / 1_000_000_000n
    this.#memory.uint64[3] = nanoseconds % 1_000_000_000n
    this.#settime(this.#fd, 0, this.#memory.address, 0)
  }
}

/**
 * A blocked thread spins first for so many nanoseconds: most waits are over by then, and a sleep costs more than they
 * take.
 */
const SPIN_FOR = 1_000_000
const NAP_MICROSECONDS = 50

/**
 * How a blocked thread passes the time between two looks: it spins at first, as CUDA does, then naps, so as not to burn
 * a core.
 */
export function makeRest(): (nanosecondsWaited: number) => void {
  if (process.platform === 'win32') return () => {}
  const usleep = koffi().load(null).func('int usleep(uint microseconds)')
  return (waited) => {
    if (waited > SPIN_FOR) usleep(NAP_MICROSECONDS)
  }
}
