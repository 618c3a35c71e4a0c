// Runs programs in Node by the playground's own runner: each in a worker, so that it finds a library of its own.
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { build } from 'esbuild'
import { asText } from '../as-text.mjs'
import { root } from './serve.mjs'

const here = dirname(fileURLToPath(import.meta.url))
/** A folder of each test file, since these run beside each other; below it, the library finds its own lines by this name. */
const ofTestFile = resolve(here, '..', 'dist-of-tests', basename(process.argv[1] ?? '', '.test.mjs'))
const runner = join(ofTestFile, 'library', 'foundation', 'base', 'stack.js')

/** Bundles the runner, with the library, which then loads in half the time; or alone: the library stays where it is. */
export async function buildRunner({ withLibrary }) {
  const compiled = join(root, 'dist', 'src')
  const library = {
    name: 'library',
    setup({ onResolve }) {
      onResolve({ filter: /^cuda-streams/ }, ({ path }) => {
        const entryPoint = path.split('/')[1] ?? 'index'
        return { path: join(compiled, 'entry-points', `${entryPoint}.js`), external: !withLibrary }
      })
      onResolve({ filter: /\/dist\/src\// }, ({ path, resolveDir }) => ({
        path: resolve(resolveDir, path),
        external: !withLibrary,
      }))
    },
  }
  await build({
    entryPoints: [resolve(here, '..', 'src', 'run', 'runner.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'es2022',
    // Errors and values tell of their classes.
    keepNames: true,
    outfile: runner,
    plugins: [library, asText],
    logLevel: 'warning',
  })
}

const SCRIPT = `
import { parentPort, workerData } from 'node:worker_threads'
const runner = await import(workerData.runner)
const { what, code } = workerData
// What a program leaves to nobody does not end the page's worker either: it may come after the answer.
for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, () => {})
runner[what](code, ...(what === 'profile' ? [] : [() => {}])).then((found) => parentPort.postMessage({ found }), ({ stack }) => parentPort.postMessage({ stack }))
`
const OF_TEXT = new URL(`data:text/javascript,${encodeURIComponent(SCRIPT)}`)

export const inNode = (what, code) => inWorker(OF_TEXT, { what, code })

/** Which members of the library's classes the programs themselves call, to an end, as `Stream#record` or `Stream.from`. */
export const membersUsed = (codes) => inWorker(new URL('./watched-worker.mjs', import.meta.url), { codes })

/** Milliseconds after which a worker hangs: a program may leave a stream that waits for ever. */
const LONGEST = 300_000

function inWorker(script, data) {
  return new Promise((done, fail) => {
    const worker = new Worker(script, {
      workerData: { runner: pathToFileURL(runner).href, ...data },
      env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim' },
    })
    const hangs = setTimeout(() => {
      fail(new Error(`The worker has not answered within ${LONGEST / 1000} s`))
      void worker.terminate()
    }, LONGEST)
    // It is ended as the page's is, which comes to no end of its own.
    worker.on('message', ({ found, stack }) => {
      clearTimeout(hangs)
      if (stack === undefined) done(found)
      else fail(new Error(`The runner has failed: ${stack}`))
      void worker.terminate()
    })
    worker.on('error', (error) => {
      clearTimeout(hangs)
      fail(error)
    })
  })
}
