/**
 * What differs between Node, Bun and Deno if a test starts a process of the run time that it is run by, and if the library runs on what
 * takes the place of Node in a page (site/playground/tests/as-in-a-page.mjs, which is then imported by an argument of Node); and how many queues of a GPU
 * such a process takes.
 */

const ARGUMENTS = process.env['CUDA_STREAMS_TEST_ARGUMENTS'] ?? '["--expose-gc", "--test-reporter=tap"]'

/** The arguments that run a test file. */
export const runsTestFile = (path: string): string[] => [...JSON.parse(ARGUMENTS), path]

/** Why a test that puts fake timers in the place of real ones cannot run here, or false. */
export const withoutFakeTimers =
  'deno' in process.versions && 'the fake timers of Deno take the place of those too that the library has kept'

/** Why JavaScript does not tell here what comes of a promise, or false. */
export const withoutPromiseHooks =
  ('bun' in process.versions || 'deno' in process.versions) && 'node:async_hooks has no promise hooks here'

/** The arguments that run the text of a module. */
export const runsModule = (text: string): string[] =>
  'deno' in process.versions ? ['eval', text] : ['--input-type=module', '-e', text]

/** The arguments by which a process of Node runs the library as this one does. */
export const sameLibrary: readonly string[] = process.execArgv.filter((argument) => argument.includes('as-in-a-page'))

/** Whether the library has the process, with its variables and its end: a page has none. */
export const hasProcess = sameLibrary.length === 0

/** Why memory and events cannot go to other processes here, or false. */
export const withoutProcesses = !hasProcess && 'a page has no other processes'

/** Whether what a function makes current follows it over each `await`, and is seen by no other: browsers cannot do that. */
export const contextsFollowAwaits = hasProcess

/**
 * For processes with few streams: on an H100 a context with 32 hardware queues takes 0.9 s to make and release, with 8 a quarter of
 * that, and one process at a time does so.
 */
export const FEW_QUEUES = { CUDA_DEVICE_MAX_CONNECTIONS: '8' } as const
