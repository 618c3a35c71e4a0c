/**
 * Shared libraries for tests, which the C compiler of the machine makes of a source. On Windows that is zig. Where Wine is Windows
 * (scripts/test-windows.mjs), it is the zig of the system below.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, dirname } from 'node:path'

const ON_WINDOWS = process.platform === 'win32'
const IN_WINE = process.env['CUDA_STREAMS_TEST_WINE'] !== undefined
const ZIG = ['-m', 'ziglang', 'cc', '-target', 'x86_64-windows-gnu']
const [COMPILER, ...FIRST]: readonly [string, ...string[]] = ON_WINDOWS
  ? [IN_WINE ? 'python3' : 'python', ...ZIG]
  : ['cc']
/** Milliseconds that the compiler may take. */
const LONGEST = 60_000

/** Of shared libraries. */
const ENDING = ON_WINDOWS ? '.dll' : '.so'
const OPTIONS = ON_WINDOWS ? ['-shared', '-O2', '-lpthread', '-lntdll'] : ['-shared', '-fPIC', '-O2', '-pthread']

const missing = (ON_WINDOWS ? undefined : spawnSync(COMPILER, ['--version']).error)?.message

/** Why no library can be made here, or false. */
export const noCompiler: string | false =
  process.platform !== 'linux' && !ON_WINDOWS
    ? 'the native layer is for Linux and Windows'
    : missing !== undefined && `no C compiler here: ${missing}`

/** Makes a library of a file of C. `path` is its own without an ending, and one with an ending is taken as it is. Returns the path. */
export function makeLibrary(source: string, path: string, options: readonly string[] = []): string {
  const file = /\.(so|dll)(\.\d+)?$/.test(path) ? path : path + ENDING
  const compile = IN_WINE ? compileBelow : compileHere
  const failed = compile([...FIRST, source, '-o', file, ...OPTIONS, ...options], file)
  if (failed !== undefined) throw new Error(`${COMPILER} makes no ${file} of ${source}: ${failed}`)
  return file
}

/** Returns what the compiler says where it fails. */
function compileHere(args: readonly string[]): string | undefined {
  const { status, stderr } = spawnSync(COMPILER, args, { encoding: 'utf8' })
  return status === 0 ? undefined : stderr
}

/** By the system below, which Wine starts, and does not wait for. */
function compileBelow(args: readonly string[], file: string): string | undefined {
  // The drive Z: is the root of that system.
  const below = (path: string): string => path.replace(/^Z:/i, '').replaceAll('\\', '/')
  const [said, over] = [`${file}.said`, `${file}.over`]
  const command = [COMPILER, ...args].map((arg) => `'${below(arg)}'`).join(' ')
  const script = `${command} > '${below(said)}' 2>&1; echo $? > '${below(over)}'`
  spawnSync('start', ['/unix', '/bin/sh', '-c', script], { stdio: 'ignore' })
  const status = (): string => (existsSync(over) ? readFileSync(over, 'utf8').trim() : '')
  const until = performance.now() + LONGEST
  while (status() === '' && performance.now() < until) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
  return status() === '0' ? undefined : readFileSync(said, 'utf8')
}

/** The environment of a process whose loader finds the libraries of a file's folder. */
export function withFolderOf(file: string, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const name = ON_WINDOWS
    ? (Object.keys(env).find((each) => each.toUpperCase() === 'PATH') ?? 'PATH')
    : 'LD_LIBRARY_PATH'
  return { ...env, [name]: ON_WINDOWS ? [dirname(file), env[name]].join(delimiter) : dirname(file) }
}
