/** Another process, which opens the memory and the events that a soak shares with it, and writes there in order. */
import { DeviceBuffer, Event, Stream } from 'cuda-streams'

export interface PartnerWork {
  /** Handles, as hexadecimal digits. */
  readonly memory: string
  readonly written: string
  /** What is there, and what is to be written. */
  readonly value: number
  readonly more: number
}

/** `answered` is the handle of an event that is recorded behind the writing; it is kept until the next work. */
export interface PartnerReply {
  readonly answered: string
  readonly wrong: string | undefined
}

let kept: Event | undefined

async function answer({ memory, written, value, more }: PartnerWork): Promise<PartnerReply> {
  using stream = new Stream()
  using buffer = DeviceBuffer.fromIpcHandle(Buffer.from(memory, 'hex'))
  using ready = Event.fromIpcHandle(Buffer.from(written, 'hex'))
  kept?.close()
  kept = stream.device.createEvent({ interprocess: true })
  stream.wait(ready)
  const seen = stream.download(buffer)
  stream.fill(buffer, more).record(kept)
  const bytes = await seen
  await stream.finished()
  const wrong = bytes.every((byte) => byte === value) ? undefined : `another process read ${bytes[0]}, not ${value}`
  return { answered: Buffer.from(kept.ipcHandle()).toString('hex'), wrong }
}

process.on('message', (work: PartnerWork) => {
  answer(work).then(
    (reply) => process.send?.(reply),
    (error: unknown) => process.send?.({ answered: '', wrong: String(error) }),
  )
})
