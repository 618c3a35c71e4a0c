/** Whether this thread runs tests. Test runners take the exit code of their workers for nothing, and uncaught errors for failures. */
import { process } from './node-modules.js'

/** The functions that tests are written with, where they are global, as those of Mocha are. */
const isGlobal = (name: string): boolean => typeof Reflect.get(globalThis, name) === 'function'

/** Children of `node --test` inherit its variable to programs that they start, which do not load the test runner. */
function isOfNode(): boolean {
  if (process.env['NODE_TEST_CONTEXT'] === undefined) return false
  const names: unknown = Reflect.get(process, 'moduleLoadList')
  return Array.isArray(names) && names.includes('NativeModule internal/test_runner/harness')
}

/** `bun test` sets this where it is not set, and runs files of these names alone. */
const isOfBun = (): boolean =>
  'bun' in process.versions &&
  process.env['NODE_ENV'] === 'test' &&
  /[._](?:test|spec)\.[cm]?[jt]sx?$/.test(process.argv[1] ?? '')

/** Is this a worker of Jest, which imitates `process`, of Vitest or of `node --test`, or a process of Mocha or `bun test`? */
export const isInTestRunner = (): boolean =>
  process !== process.getBuiltinModule('node:process') ||
  '__vitest_worker__' in globalThis ||
  (isGlobal('describe') && isGlobal('it')) ||
  isOfNode() ||
  isOfBun()
