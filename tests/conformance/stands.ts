/** How a stream comes to stand at something that this thread ends. */
import type { PinnedBuffer, Stream } from 'cuda-streams'

/** Queues what this does with a value that is cleared, and returns what writes the value. */
export function standingAtValue(stream: Stream, stand: (flags: PinnedBuffer) => void): () => void {
  const flags = stream.device.allocPinned(64)
  flags.bytes.fill(0)
  stand(flags)
  return () => {
    flags.bytes[0] = 1
    flags.close()
  }
}
