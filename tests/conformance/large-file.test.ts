/**
 * T6: a large file goes to the GPU and back through web streams: byte for byte, in memory that does not grow with it.
 * How long the event loop was held up is printed; how long that may be is for a bench to say, not for a test.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createReadStream, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { onEveryBackend } from '../helpers/suite.js'

const GIB = 2 ** 30
const MIB = 2 ** 20
const CHUNK = 4 * MIB
/** Two rings of 16 MiB, chunks on their way, and what the garbage collector has not looked at yet. */
const MOST_MEMORY = 256 * MIB

onEveryBackend('a large file', (bench) => {
  const { device } = bench
  // The simulator's device memory is this process's own: there the file is smaller.
  const length = bench.name === 'cuda' ? 3 * GIB + 12_345 : 64 * MIB + 12_345

  test(`T6 ${(length / GIB).toFixed(2)} GiB through pipeTo, to the GPU and back`, async (context) => {
    const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-large-'))
    const { bavail, bsize } = statfsSync(directory)
    assert.ok(bavail * bsize > 2 * length, `${directory} has no room for two files of ${length} bytes`)
    using stream = bench.stream()
    using buffer = device.alloc(length, { stream })
    try {
      const [there, back] = [join(directory, 'there'), join(directory, 'back')]
      writeNoise(there, length)
      const expected = await digest(there)
      stream.fill(buffer, 0)
      stream.synchronize()

      const watch = new Watch()
      await (Readable.toWeb(createReadStream(there, { highWaterMark: CHUNK })) as ReadableStream<Uint8Array>).pipeTo(
        stream.uploader(buffer) as WritableStream<Uint8Array>,
      )
      await stream.finished()
      const up = watch.lap()
      await (stream.downloader(buffer) as ReadableStream<Uint8Array>).pipeTo(await fileEnd(back))
      const down = watch.lap()
      watch.stop()

      context.diagnostic(`to the GPU: ${up}; back: ${down}; memory: up to ${(watch.growth / MIB).toFixed(0)} MiB more`)
      assert.equal(await digest(back), expected)
      assert.ok(watch.growth < MOST_MEMORY, `${(watch.growth / MIB).toFixed(0)} MiB more were in use`)
    } finally {
      rmSync(directory, { recursive: true })
    }
  })
})

/** Looks at the event loop and at the process's memory meanwhile. */
class Watch {
  readonly #delay = monitorEventLoopDelay({ resolution: 1 })
  readonly #before = process.memoryUsage().rss
  readonly #timer = setInterval(() => this.#look(), 10)
  #started = performance.now()
  #most = 0

  constructor() {
    this.#delay.enable()
  }

  /** The most memory that was in use beyond what was at the start, in bytes. */
  get growth(): number {
    return this.#most - this.#before
  }

  lap(): string {
    this.#look()
    const milliseconds = performance.now() - this.#started
    const longest = this.#delay.max / 1e6
    this.#delay.reset()
    this.#started = performance.now()
    return `${milliseconds.toFixed(0)} ms, the event loop held up for ${longest.toFixed(1)} ms at most`
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#delay.disable()
  }

  #look(): void {
    this.#most = Math.max(this.#most, process.memoryUsage().rss)
  }
}

/** `Writable.toWeb()` of Node 20 counts chunks where it should count bytes, and takes the whole file into its queue. */
async function fileEnd(path: string): Promise<WritableStream<Uint8Array>> {
  const file = await open(path, 'w')
  return new WritableStream({
    async write(chunk) {
      await file.write(chunk)
    },
    close: () => file.close(),
  })
}

/** Bytes that no two places of the file have in common, as far as that matters. */
function writeNoise(path: string, length: number): void {
  const file = openSync(path, 'w')
  const words = new Uint32Array(CHUNK / 4)
  for (let at = 0; at < length; at += CHUNK) {
    for (let index = 0; index < words.length; index += 1) words[index] = Math.imul(at / 4 + index, 0x9e3779b1)
    writeSync(file, new Uint8Array(words.buffer, 0, Math.min(CHUNK, length - at)))
  }
}

async function digest(path: string): Promise<string> {
  const hash = createHash('sha1')
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK })) hash.update(chunk)
  return hash.digest('hex')
}
