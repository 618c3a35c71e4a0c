/** Chooses a driver with each value of CUDA_STREAMS_DRIVER in turn, and prints what comes of it. The argument is the library. */
const { Device } = await import(process.argv[2] ?? 'cuda-streams')

export interface Chosen {
  /** By the value: the driver, or the code and message of the error. */
  readonly [value: string]: string
}

const warnings: string[] = []
process.on('warning', ({ name, message }) => void (name === 'CudaStreamsWarning' && warnings.push(message)))

function choose(value: string | undefined): string {
  if (value === undefined) delete process.env['CUDA_STREAMS_DRIVER']
  else process.env['CUDA_STREAMS_DRIVER'] = value
  try {
    return Device.get(0).driver
  } catch (error) {
    return error instanceof Error ? `${Reflect.get(error, 'code')}: ${error.message}` : String(error)
  }
}

// What is chosen stays, and sim can be chosen anywhere: so it comes last.
const chosen: Chosen = { cuda: choose('cuda'), unset: choose(undefined), auto: choose('auto'), sim: choose('sim') }
// Warnings come a tick later.
await new Promise(setImmediate)
console.log(JSON.stringify({ ...chosen, warnings: warnings.join('\n') }))
