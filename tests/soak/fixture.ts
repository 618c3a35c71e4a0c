/** What all threads of one soak have in common. */
import type { Options } from './options.js'

const STOP = 0
const CAPTURES = 1
const DEVICE_WAITS = 2
const WORDS = 4

/**
 * Threads agree here, without ever blocking, on what one of them does that another may not do meanwhile: CUDA refuses
 * to wait for a device while any stream of it captures, and that invalidates the capture.
 */
export class Fixture {
  readonly options: Options
  readonly memory: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(options: Options, memory = new SharedArrayBuffer(WORDS * 4)) {
    this.options = options
    this.memory = memory
    this.#words = new Int32Array(memory)
  }

  /**
   * The null stream is refused while a blocking stream of any thread captures, and invalidates that capture: so in
   * every second seed the null stream is used, and in the others blocking streams capture.
   */
  get usesNullStream(): boolean {
    return this.options.seed % 2 === 0
  }

  /** In some seeds the workers use the library before the main thread does. */
  get workersFirst(): boolean {
    return this.options.workers > 0 && this.options.seed % 4 === 3
  }

  /** Somebody has failed, or the time is over. */
  get stopped(): boolean {
    return Atomics.load(this.#words, STOP) !== 0
  }

  stop(): void {
    Atomics.store(this.#words, STOP, 1)
  }

  /** True where a capture may begin; then `captureEnds()` has to be called. */
  captureBegins(): boolean {
    return this.#enter(CAPTURES, DEVICE_WAITS)
  }

  captureEnds(): void {
    Atomics.sub(this.#words, CAPTURES, 1)
  }

  /** Calls the function, which waits for a device or asks for such a wait, unless a stream captures. */
  waitForDevice(wait: () => void): boolean {
    if (!this.#enter(DEVICE_WAITS, CAPTURES)) return false
    try {
      wait()
    } finally {
      Atomics.sub(this.#words, DEVICE_WAITS, 1)
    }
    return true
  }

  #enter(mine: number, theirs: number): boolean {
    Atomics.add(this.#words, mine, 1)
    if (Atomics.load(this.#words, theirs) === 0) return true
    Atomics.sub(this.#words, mine, 1)
    return false
  }
}
