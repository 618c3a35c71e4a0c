/**
 * Streams and events of two copies of the package on one driver: each waits for what the other has queued. Started by fake-driver.test.ts; prints
 * what came of it.
 */
import * as ours from 'cuda-streams'
import { anotherCopy } from '../helpers/another-copy.js'

const theirs = (await anotherCopy()('index.js')) as typeof ours
const device = ours.Device.get()
const stream = new ours.Stream({ device })
const away = new theirs.Stream()
const remote = away.device.alloc(64, { stream: away })

/** Holds their stream before a fill, lets the call wait for that, and says whether our stream waits for as long as theirs. */
async function waits(what: string, call: () => unknown): Promise<void> {
  stream.synchronize()
  let open = (): void => {}
  away.wait(new Promise<void>((resolve) => (open = resolve)))
  away.fill(remote, 1)
  call()
  const before = stream.query()
  open()
  await Promise.all([stream.finished(), away.finished()])
  console.log(`${what}: ${before ? 'did not wait' : 'waited'}`)
}

await waits('stream.wait(stream)', () => stream.wait(away))
await waits('stream.wait(Stream.from(stream))', () => stream.wait(ours.Stream.from(away)))
await waits('stream.wait(new ExternalStream(stream))', () => stream.wait(new ours.ExternalStream(away)))
await waits('stream.wait(event)', () => stream.wait(away.record()))
await waits('stream.wait(event, options)', () => stream.wait(away.record(), { external: false }))
await waits('stream.wait(stream, { event })', () => stream.wait(away, { event: away.device.createEvent() }))
await waits('stream.record(event)', () => {
  const event = away.device.createEvent()
  stream.wait(away).record(event)
  away.wait(event)
})
for (const name of ['null', 'perThread'] as const) {
  console.log(`Stream.${name}: ${ours.Stream.from(theirs.Stream[name]).equals(ours.Stream[name])}`)
}

function codeOf(call: () => unknown): unknown {
  try {
    call()
    return 'returned'
  } catch (error) {
    return error instanceof Error && Reflect.get(error, 'code')
  }
}
const closed = away.record()
closed.close()
console.log(`a closed event: ${codeOf(() => stream.wait(closed))}`)
console.log(`memory: ${codeOf(() => stream.fill(remote, 1))}`)
away.close()
console.log(`a closed stream: ${codeOf(() => stream.wait(away))}`)
