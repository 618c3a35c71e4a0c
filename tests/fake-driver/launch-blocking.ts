/**
 * Launches beside host functions under CUDA_LAUNCH_BLOCKING=1, by which CUDA waits for the whole device in each of them. Started by
 * fake-driver.test.ts; prints what became of each.
 */
import { Device, Program, Stream } from 'cuda-streams'

const device = Device.get()
const [stream, other] = [new Stream({ device }), new Stream({ device })]
const bytes = device.alloc(64, { stream })
const copied = device.alloc(64, { stream })
const source = 'extern "C" __global__ void bump(unsigned char *p, int n, int v) {}'
const bump = (await Program.compile(source)).kernel('bump', ['inout u8*', 'i32', 'i32'])
const exec = stream.capture(() => stream.fill(bytes, 3)).instantiate()
const ofHost = stream.capture(() => stream.launchHostFunc(() => {})).instantiate()
process.on('warning', (warning) => console.log(`warning: ${String(Reflect.get(warning, 'code'))}`))

const launch = (on: Stream): unknown => on.launch(bump, { grid: 1, block: 1 }, bytes, 64, 1)
/** How a call ends that is made while a host function is pending on the stream. */
function behindHostFunction(what: string, call: () => void): void {
  let ran = false
  stream.launchHostFunc(() => {
    ran = true
  })
  call()
  console.log(`${what}: the host function ${ran ? 'has run' : 'is pending'}`)
}
function codeOf(call: () => void): string {
  try {
    call()
    return 'returned'
  } catch (error) {
    return String(Reflect.get(Object(error), 'code'))
  }
}

behindHostFunction('a launch', () => launch(stream))
behindHostFunction('a launch on another stream', () => launch(other))
behindHostFunction('a graph', () => stream.launch(exec))
behindHostFunction('a copy within the device', () => stream.copy(copied, bytes))
behindHostFunction('a fill', () => stream.fill(bytes, 1))
behindHostFunction('a captured launch', () => other.capture(() => launch(other)))
await device.finished()

let inside = ''
stream.launchHostFunc(() => {
  inside = codeOf(() => launch(other))
})
await stream.finished()
console.log(`inside a host function: ${inside}`)
console.log(`a graph with a host function: ${codeOf(() => stream.launch(ofHost))}`)

let settle = (): void => {}
stream.wait(
  new Promise<void>((resolve) => {
    settle = resolve
  }),
)
console.log(`behind a promise: ${codeOf(() => launch(stream))}`)
settle()
await stream.finished()
console.log(`later: ${codeOf(() => launch(stream))}`)
