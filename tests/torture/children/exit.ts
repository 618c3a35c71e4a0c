/** Ends the process in the stated way with much work pending: `node exit.js <backend> <how>`. */
import { openBackend } from '../backend.js'
import { loadStreams, pause, queueLoad } from '../load.js'

const [backend = '', how = ''] = process.argv.slice(2)
const bench = openBackend(backend)
const { promises } = queueLoad(loadStreams(bench))
for (const promise of promises) promise.catch(() => {})
// Long enough for the GPU to stand at the host functions.
pause(50)

if (how === 'exit') process.exit(7)
switch (how) {
  case 'exit-in-host-function':
    bench.stream().launchHostFunc(() => process.exit(7))
    break
  case 'throw':
    throw new Error('nobody catches this')
  case 'throw-in-host-function':
    bench.stream().launchHostFunc(() => {
      throw new Error('nobody catches this')
    })
    break
  case 'natural': {
    // Nothing but what is pending keeps the process alive: it must, until all of it is done.
    let settled = 0
    const count = (): void => {
      settled += 1
    }
    for (const promise of promises) promise.then(count)
    process.once('exit', () => console.log(`${settled} settled`))
    break
  }
  default:
    throw new Error(`'${how}' is no way to end`)
}
