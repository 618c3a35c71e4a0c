/** A thread that ends a capture which another thread began, and tells the CUresult. */
import { parentPort, workerData } from 'node:worker_threads'
import { CudaError, ExternalStream } from 'cuda-streams'

function result(): number {
  try {
    new ExternalStream(workerData).endCapture().close()
    return 0
  } catch (error) {
    if (error instanceof CudaError) return error.number
    throw error
  }
}

parentPort?.postMessage(result())
