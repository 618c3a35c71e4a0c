/**
 * A thread that waits inside a host function while another waits for the stream of that host function. Started by
 * fake-driver.test.ts with a limit of two seconds; prints how both waits ended.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { Device, type SharedStream, Stream } from 'cuda-streams'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'

const endOf = (wait: () => void): string => {
  try {
    wait()
    return 'ended'
  } catch (error) {
    return String(Reflect.get(Object(error), 'code'))
  }
}

if (isMainThread) {
  const bench = openCudaWorkbench()
  if (typeof bench === 'string') throw new Error(bench)
  const device = Device.get()
  const [stream, held, other] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
  const worker = new Worker(new URL(import.meta.url), { workerData: stream.share() })
  // It stands for work that no thread of this process can tell anything about.
  const latch = bench.latch(held)
  stream.launchHostFunc(() => {
    worker.postMessage('wait')
    // One more that is due starts the limit of a wait inside a host function again.
    other.launchHostFunc(() => {})
    console.log(`inside: ${endOf(() => held.synchronize())}`)
  })
  worker.on('message', (end) => {
    console.log(`outside: ${end}`)
    worker.postMessage('end')
  })
  void stream.finished().then(() => latch.open())
} else {
  const stream = Stream.from(workerData as SharedStream)
  parentPort?.on('message', (message) => {
    if (message === 'end') parentPort?.close()
    else parentPort?.postMessage(endOf(() => stream.synchronize()))
  })
}
