/** Where the microseconds of a request go: the samples of V8's profiler by what the server was doing, and the processor's time. */
import { Session } from 'node:inspector/promises'

/** Microseconds of one request. */
export interface RequestProfile {
  readonly requests: number
  /** Of the processor, in all threads of the server. */
  readonly cpu: number
  /** Of JavaScript's thread, by part. */
  readonly parts: Readonly<Record<string, number>>
}

interface Frame {
  readonly functionName: string
  readonly url: string
}

/** The first that a frame belongs to, from the innermost frame on, says which part a sample is of. */
const PARTS: readonly (readonly [part: string, url: RegExp, functionName: RegExp])[] = [
  ['idle', /^$/, /^\(idle\)$/],
  ['garbage collector', /^$/, /^\(garbage collector\)$/],
  ['event loop', /^$/, /^\(program\)$/],
  ['allocation and upload', /\/src\/shortcuts\.js$/, /bufferFrom$/],
  ['launches', /\/src\/stream\.js$/, /^launch$/],
  ['download', /\/src\/(stream|memory\/transfers)\.js$/, /^download$/],
  ['free', /\/src\/core\/memory\/buffer\.js$/, /^close$/],
  ['make and close streams', /\/src\/stream\.js$/, /^(Stream|close)$/],
  ['wait', /\/src\/foundation\/driver\/event-loop-poller\.js$/, /./],
]
const REST = 'HTTP'
const SAMPLING_MICROSECONDS = 100

/** What a server does between the two calls. */
export class Profile {
  readonly #session = new Session()
  readonly #before: number
  #cpu = process.cpuUsage()

  private constructor(served: number) {
    this.#before = served
    this.#session.connect()
  }

  /** `served` is how many requests have been answered by now. */
  static async begin(served: number): Promise<Profile> {
    const profile = new Profile(served)
    await profile.#session.post('Profiler.enable')
    await profile.#session.post('Profiler.setSamplingInterval', { interval: SAMPLING_MICROSECONDS })
    await profile.#session.post('Profiler.start')
    profile.#cpu = process.cpuUsage()
    return profile
  }

  async end(served: number): Promise<RequestProfile> {
    const { user, system } = process.cpuUsage(this.#cpu)
    const { profile } = await this.#session.post('Profiler.stop')
    this.#session.disconnect()
    const requests = served - this.#before
    const [frames, parents] = [new Map<number, Frame>(), new Map<number, number>()]
    for (const { id, callFrame, children } of profile.nodes) {
      frames.set(id, callFrame)
      for (const child of children ?? []) parents.set(child, id)
    }
    const parts: Record<string, number> = Object.fromEntries(
      [...PARTS.map(([part]) => part), REST].map((part) => [part, 0]),
    )
    for (const [index, sample] of (profile.samples ?? []).entries()) {
      const part = partOf(sample, frames, parents)
      parts[part] = (parts[part] ?? 0) + (profile.timeDeltas?.[index] ?? 0) / requests
    }
    return { requests, cpu: (user + system) / requests, parts }
  }
}

function partOf(sample: number, frames: ReadonlyMap<number, Frame>, parents: ReadonlyMap<number, number>): string {
  for (let id: number | undefined = sample; id !== undefined; id = parents.get(id)) {
    const frame = frames.get(id)
    const found = frame && PARTS.find(([, url, name]) => url.test(frame.url) && name.test(frame.functionName))
    if (found !== undefined) return found[0]
  }
  return REST
}
