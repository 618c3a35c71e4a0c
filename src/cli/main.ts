#!/usr/bin/env node
/** The command of the package: reads its arguments, and sets the exit code. */
import '../base/node-version.js'
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { nearest } from '../base/arguments.js'
import { messageOf } from '../base/errors.js'
import { printError } from '../base/standard-error.js'
import { type CompileRequest, compileFiles } from './compile.js'
import { examine } from './doctor.js'
import { outFor, type RecordingRequest, readRecording } from './recordings.js'
import { textOf } from './report.js'
import { type SanitizeRequest, sanitizeProgram } from './sanitize.js'
import { WISHES, wishesOf } from './wishes.js'

const USAGE = `Usage: cuda-streams doctor [--json] [--timeout SECONDS] [FILE.js...]
       cuda-streams compile FILE.cu... [--out DIR] [--arch ARCH] [--cubin ARCH]... [--types] [--ptx] [--watch] [-- OPTIONS]
       cuda-streams check RUN.rec [--possible]
       cuda-streams timeline RUN.rec [--out FILE]
       cuda-streams why RUN.rec
       cuda-streams what-if RUN.rec [--without-wait LINE] [--own-stream LINE] [--more-buffers LINE] [--faster NAME=PERCENT]
                                    [--queues COUNT] [--idle-host] [--timeout SECONDS] [--json]
       cuda-streams sanitize [--possible] [--keep DIR] -- COMMAND [ARGUMENTS]
       cuda-streams [--help | --version]

doctor examines what cuda-streams needs on this machine, prints which driver a program gets and why, and tests each
of its devices. Of each file, a bundle or what compile has written, it says which devices run the kernels in it. The exit
code is 0 if everything that is requested works, and 1 if something does not.

  --json             the report as JSON
  --timeout SECONDS  the time limit of a step (default 30)

compile makes a module of JavaScript of each file of CUDA C++, FILE.cu.js, which exports its kernels, with declarations
for TypeScript. It needs NVRTC, and no GPU. The exit code is 1 if a file does not compile.

  --out DIR          where to write (default: beside each file)
  --arch ARCH        the lowest architecture to compile for (default compute_75)
  --cubin ARCH       machine code for such GPUs, too, as for sm_90; may be given several times
  --types            only declarations, FILE.d.cu.ts, for imports of FILE.cu itself
  --ptx              the code as FILE.ptx, too
  --watch            compiles again whenever a file changes
  OPTIONS            for NVRTC, such as -I include -DTILE=32

check, timeline, why and what-if read a recording, which CUDA_STREAMS_RECORD=run.rec node program.js writes. They need no GPU.

check finds the waits that are missing, in a recording or in a folder of CUDA_STREAMS_TRACE. The exit code is 1 if there are any.
timeline writes a page, or what --out ends in: .html, .json, .json.gz, .svg or .txt.
why says what held the streams up, and what the run's time was made of.
what-if predicts what the run would gain by changes: all that may be worth it, or those that are given, each of which may be
given several times.

  --without-wait LINE   without the wait at a line, such as video.js:41
  --own-stream LINE     the work of a line on a stream of its own
  --more-buffers LINE   one more buffer in the ring of which the wait at this line guards the next
  --faster NAME=PERCENT a kernel that is so much faster, such as blur=20
  --queues COUNT        so many hardware queues
  --idle-host           no time of JavaScript between the calls
  --timeout SECONDS     for how long changes are tried (default 30)
  --json                what is predicted as JSON

sanitize runs a program that uses CUDA, in any language, and finds the waits that are missing between all of its libraries: a
PyTorch program needs not a line of JavaScript. It needs a GPU and CUPTI. The exit code is the program's, or 1 if waits are
missing.

  --possible            also pairs that race if a kernel writes where it is only known to read or write
  --keep DIR            where the recordings of its processes are left, PID.rec

  -h, --help         print this
  -v, --version      print the version of the package

Timelines and the sanitizer of programs of this library are no commands, but variables of their environment:

  CUDA_STREAMS_TIMELINE=run.html node program.js   records what ran when (docs/guides/timeline.md)
  CUDA_STREAMS_SANITIZER=1 node program.js         finds missing waits (docs/guides/sanitizer.md)
  CUDA_STREAMS_RECORD=run.rec node program.js      records what the commands above read (docs/guides/recording.md)`

const OPTIONS = {
  json: { type: 'boolean' },
  timeout: { type: 'string' },
  out: { type: 'string' },
  arch: { type: 'string' },
  cubin: { type: 'string', multiple: true },
  types: { type: 'boolean' },
  ptx: { type: 'boolean' },
  watch: { type: 'boolean' },
  'without-wait': { type: 'string', multiple: true },
  'own-stream': { type: 'string', multiple: true },
  'more-buffers': { type: 'string', multiple: true },
  faster: { type: 'string', multiple: true },
  queues: { type: 'string', multiple: true },
  'idle-host': { type: 'boolean' },
  possible: { type: 'boolean' },
  keep: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const
/** The options of each command. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  doctor: ['json', 'timeout'],
  compile: ['out', 'arch', 'cubin', 'types', 'ptx', 'watch'],
  check: ['possible'],
  timeline: ['out'],
  why: [],
  'what-if': [...WISHES, 'timeout', 'json'],
  sanitize: ['possible', 'keep'],
}

type Wanted =
  | { readonly what: 'help' | 'version' }
  | { readonly what: 'doctor'; readonly json: boolean; readonly seconds: number; readonly files: readonly string[] }
  | { readonly what: 'compile'; readonly request: CompileRequest }
  | { readonly what: 'recording'; readonly request: RecordingRequest }
  | { readonly what: 'sanitize'; readonly request: SanitizeRequest }

/** @throws Error if the arguments are wrong */
function read(): Wanted {
  const all = process.argv.slice(2)
  const end = all.indexOf('--')
  const [args, options] = end < 0 ? [all, []] : [all.slice(0, end), all.slice(end + 1)]
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const { help = false, version = false, json = false, timeout = '30', out, arch } = values
  const { cubin: cubins = [], types = false, ptx = false, watch = false, possible = false, keep } = values
  if (help || version) return { what: help ? 'help' : 'version' }
  const [command = 'help', ...files] = positionals
  if (command === 'help') return { what: 'help' }
  const allowed = COMMANDS[command]
  if (allowed === undefined) throw noCommand(command)
  const wrong = Object.keys(values).find((name) => !allowed.includes(name))
  if (wrong !== undefined) throw new Error(`${command} has no option --${wrong}`)
  if (command === 'compile') {
    if (files.length === 0) throw new Error('compile needs a file of CUDA C++')
    return { what: 'compile', request: { files, out, arch, cubins, types, ptx, watch, options } }
  }
  if (command === 'sanitize') {
    const [program, ...its] = options
    if (program === undefined || files.length > 0)
      throw new Error('sanitize needs a program behind --, as in: cuda-streams sanitize -- python train.py')
    return { what: 'sanitize', request: { program, args: its, possible, keep } }
  }
  const seconds = Number(timeout)
  if (!(seconds > 0 && seconds < 86_400)) throw new Error(`--timeout must be a number of seconds, not '${timeout}'`)
  if (command !== 'doctor') {
    const [file, ...others] = files
    if (file === undefined || others.length > 0)
      throw new Error(`${command} needs one recording, which CUDA_STREAMS_RECORD=run.rec writes for a program`)
    if (command === 'check') return { what: 'recording', request: { what: command, file, possible } }
    if (command === 'why') return { what: 'recording', request: { what: command, file } }
    if (command === 'timeline') return { what: 'recording', request: { what: command, file, out: outFor(file, out) } }
    return { what: 'recording', request: { what: 'what-if', file, wishes: wishesOf(values), seconds, json } }
  }
  const other = files.find((file) => !/\.(?:[cm]?js|ptx|cubin)$/.test(file))
  if (other !== undefined)
    throw new Error(`doctor takes files with compiled kernels, .js, .ptx or .cubin, not '${other}'`)
  return { what: 'doctor', json, seconds, files }
}

const VARIABLES_INSTEAD: Readonly<Record<string, string>> = {
  record: 'set CUDA_STREAMS_RECORD=run.rec for the program',
  sanitizer: 'set CUDA_STREAMS_SANITIZER=1 for the program',
}

function noCommand(given: string): Error {
  const meant = nearest(given, Object.keys(COMMANDS))
  const all = Object.keys(COMMANDS).map((name) => `'${name}'`)
  const wayOut = meant === undefined ? `there are ${all.join(', ')}` : `did you mean '${meant}'?`
  return new Error(`There is no command '${given}': ${VARIABLES_INSTEAD[given] ?? wayOut}`)
}

async function main(): Promise<number> {
  let wanted: Wanted
  try {
    wanted = read()
  } catch (error) {
    printError(`${messageOf(error)}\n\n${USAGE}`)
    return 2
  }
  try {
    const { version } = createRequire(import.meta.url)('../../../package.json')
    if (wanted.what === 'recording') return (await readRecording(wanted.request)) ? 0 : 1
    if (wanted.what === 'sanitize') return await sanitizeProgram(wanted.request)
    if (wanted.what === 'compile') return (await compileFiles(wanted.request)) ? 0 : 1
    if (wanted.what !== 'doctor') {
      console.log(wanted.what === 'help' ? USAGE : version)
      return 0
    }
    const report = await examine(version, wanted.seconds, wanted.files)
    console.log(wanted.json ? JSON.stringify(report, null, 2) : textOf(report))
    return report.ok ? 0 : 1
  } catch (error) {
    printError(messageOf(error))
    return 1
  }
}

process.exitCode = await main()
