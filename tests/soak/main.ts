/**
 * A soak: random right use of everything public, and mistakes that must be refused, from several threads at once, on a GPU
 * or on the simulator. Every byte is checked; docs/internals/soak.md says more.
 *
 *   npm run soak -- --seconds 60 --seed 1 --workers 4
 *
 * The exit code is 0 where all went well, 1 where something was wrong, 2 where the process crashed or hung.
 */
import { fileURLToPath } from 'node:url'
import { runMonth } from './month.js'
import { argumentsOf, parseOptions } from './options.js'
import { LOST, watch } from './watchdog.js'

/** Seconds for the beginning and the end, whatever the soak itself takes. */
const BESIDES = 120

async function soak(args: readonly string[]): Promise<number> {
  const options = parseOptions(args)
  const { driver, silence, seconds, steps } = options
  const code = await watch({
    script: fileURLToPath(new URL('inside.js', import.meta.url)),
    args: argumentsOf(options),
    env: { ...process.env, ...(driver === 'auto' ? {} : { CUDA_STREAMS_DRIVER: driver }) },
    silence,
    most: steps === undefined ? seconds + BESIDES : Number.POSITIVE_INFINITY,
  })
  if (code !== 0) {
    const how = code === LOST ? 'The process was lost' : 'Something was wrong'
    console.log(`${how}. Again: npm run soak -- ${argumentsOf(options).join(' ')}`)
  }
  return code
}

const args = process.argv.slice(2)
const rest = args.filter((each) => each !== '--month')
process.exitCode = rest.length < args.length ? await runMonth(rest) : await soak(args)
