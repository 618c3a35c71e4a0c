/** Memory and events that another process uses as well. */
import { fork } from 'node:child_process'
import { Event } from 'cuda-streams'
import { turn } from './client.js'
import type { PartnerReply, PartnerWork } from './partner.js'
import { Random, seedOf } from './random.js'
import type { Thread } from './thread.js'

const LENGTHS = [1, 4096, 100_000]

export async function shareWithProcess(thread: Thread, index: number, goesOn: () => boolean): Promise<void> {
  const { tracker, fixture } = thread
  const track = thread.trace.track(index)
  const random = new Random(seedOf(fixture.options.seed, 400))
  const { driver } = thread.machine.device
  const env = { ...process.env, CUDA_STREAMS_DRIVER: driver }
  const child = fork(new URL('partner.js', import.meta.url), { env })
  let answer: (reply: PartnerReply | undefined) => void = () => {}
  child.on('message', (reply: PartnerReply) => answer(reply))
  const exit = new Promise<void>((resolve) => {
    child.once('exit', () => {
      answer(undefined)
      resolve()
    })
  })
  const ask = (work: PartnerWork): Promise<PartnerReply | undefined> => {
    return new Promise((resolve) => {
      answer = resolve
      child.send(work)
    })
  }
  while (goesOn() && child.connected) {
    track.note('shares with another process')
    await shareOnce(thread, ask, random)
    for (let left = random.between(20, 200); left > 0; left -= 1) await turn()
  }
  track.note('lets the other process end')
  if (child.connected) child.disconnect()
  else tracker.fail('the other process has ended')
  await exit
  track.over()
}

async function shareOnce(
  { tracker, machine }: Thread,
  ask: (work: PartnerWork) => Promise<PartnerReply | undefined>,
  random: Random,
): Promise<void> {
  const { device } = machine
  const [value, more, length] = [random.below(256), random.below(256), random.one(LENGTHS)]
  using stream = device.createStream()
  using buffer = device.alloc(length, { interprocess: true })
  using written = device.createEvent({ interprocess: true })
  stream.fill(buffer, value).record(written)
  const [memory, event] = [buffer.ipcHandle(), written.ipcHandle()].map((bytes) => Buffer.from(bytes).toString('hex'))
  const reply = await ask({ memory: memory ?? '', written: event ?? '', value, more })
  if (reply === undefined) return
  if (reply.wrong !== undefined) {
    tracker.fail(`sharing with another process: ${reply.wrong}`)
    return
  }
  using answered = Event.fromIpcHandle(Buffer.from(reply.answered, 'hex'), { device })
  stream.wait(answered)
  tracker.sameBytes('what another process wrote', await stream.download(buffer), new Uint8Array(length).fill(more))
  tracker.counts.shares += 1
}
