/** Records one fill of a stream with everything, and tells what came of it. */
import { parentPort } from 'node:worker_threads'
import { Device } from 'cuda-streams'
import { Timeline } from 'cuda-streams/timeline'

async function outcome(): Promise<string> {
  const device = Device.get(0)
  const stream = device.createStream()
  const pinned = device.allocPinned(64)
  try {
    const { operations } = await Timeline.record(() => stream.fill(pinned, 1), { everything: true })
    return `recorded ${operations.filter(({ kind }) => kind === 'fill').length}`
  } catch (error) {
    const { code, message } = error as Error & { readonly code?: string }
    return `${code} ${message}`
  }
}

parentPort?.postMessage(await outcome())
