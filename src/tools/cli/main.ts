#!/usr/bin/env node
/**
 * The command of the package: reads its arguments, and sets the exit code. It loads only the command that is asked for, since all of them
 * together take longer than most.
 */
import '../../foundation/base/node-version.js'
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { nearest } from '../../foundation/base/arguments.js'
import { messageOf } from '../../foundation/base/errors.js'
import { printError } from '../../foundation/base/standard-error.js'
import type { CompileRequest } from './compile.js'
import { examine } from './doctor.js'
import { COMMANDS, helpOf } from './help.js'
import type { RecordRequest } from './record.js'
import type { RecordingRequest } from './recordings.js'
import { textOf } from './report.js'
import type { HostLevel, SanitizeRequest } from './sanitize.js'
import { proposalsOf } from './what-if-options.js'

const OPTIONS = {
  json: { type: 'boolean' },
  verbose: { type: 'boolean' },
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
  host: { type: 'string' },
  keep: { type: 'string' },
  text: { type: 'string' },
  html: { type: 'string' },
  junit: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const
type Wanted =
  | { readonly what: 'version' }
  | { readonly what: 'demo' }
  | { readonly what: 'help'; readonly command: string | undefined }
  | {
      readonly what: 'doctor'
      readonly json: boolean
      readonly isVerbose: boolean
      readonly seconds: number
      readonly files: readonly string[]
    }
  | { readonly what: 'compile'; readonly request: CompileRequest }
  | { readonly what: 'recording'; readonly request: RecordingRequest }
  | { readonly what: 'sanitize'; readonly request: SanitizeRequest }
  | { readonly what: 'record'; readonly request: RecordRequest }

/**
 * Reads the arguments.
 * @throws Error if they are wrong
 */
async function read(): Promise<Wanted> {
  const all = process.argv.slice(2)
  const end = all.indexOf('--')
  const [args, options] = end < 0 ? [all, []] : [all.slice(0, end), all.slice(end + 1)]
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const { help = false, version = false, json = false, timeout = '30', out, arch } = values
  const {
    cubin: cubins = [],
    types = false,
    verbose = false,
    ptx = false,
    watch = false,
    possible = false,
    host = 'sampled',
    keep,
    text,
    html,
    junit,
  } = values
  const [command = 'help', ...files] = positionals
  if (help || (command === 'help' && !version))
    return { what: 'help', command: command === 'help' ? files[0] : command }
  if (version) return { what: 'version' }
  const allowed = COMMANDS.get(command)?.options
  if (allowed === undefined) throw noCommand(command)
  const wrong = Object.keys(values).find((name) => !allowed.includes(name))
  if (wrong !== undefined) throw new Error(`${command} has no option --${wrong}`)
  if (command === 'demo') return { what: 'demo' }
  if (command === 'compile') {
    if (files.length === 0) throw new Error('compile needs a file of CUDA C++, or one of Python with Triton kernels')
    return { what: 'compile', request: { files, out, arch, cubins, types, ptx, watch, options } }
  }
  if (command === 'sanitize' || command === 'record') {
    const [program, ...its] = options
    if (program === undefined || files.length > 0)
      throw new Error(`${command} needs a program behind --, as in: cuda-streams ${command} -- python train.py`)
    if (command === 'record') return { what: 'record', request: { program, args: its, out: out ?? 'run.rec' } }
    return {
      what: 'sanitize',
      request: { program, args: its, possible, host: hostLevel(host), keep, files: { text, html, junit } },
    }
  }
  const seconds = Number(timeout)
  if (!(seconds > 0 && seconds < 86_400)) throw new Error(`--timeout must be a number of seconds, not '${timeout}'`)
  if (command !== 'doctor') {
    const [file, ...others] = files
    // The recordings of the ranks of a run can be read together.
    const isOfRanks = command === 'why' || command === 'timeline'
    if (file === undefined || (others.length > 0 && !isOfRanks))
      throw new Error(
        `${command} needs one recording, which cuda-streams record writes, or CUDA_STREAMS_RECORD=run.rec for a program of this library`,
      )
    if (command === 'check') return { what: 'recording', request: { what: command, file, possible } }
    if (command === 'why') return { what: 'recording', request: { what: command, files } }
    if (command === 'timeline') {
      const { outFor } = await import('./recordings.js')
      return { what: 'recording', request: { what: command, files, out: outFor(file, out) } }
    }
    return { what: 'recording', request: { what: 'what-if', file, proposals: proposalsOf(values), seconds, json } }
  }
  const other = files.find((file) => !/\.(?:[cm]?js|ptx|cubin)$/.test(file))
  if (other !== undefined)
    throw new Error(`doctor takes files with compiled kernels, .js, .ptx or .cubin, not '${other}'`)
  return { what: 'doctor', json, isVerbose: verbose, seconds, files }
}

const VARIABLES_INSTEAD = new Map([['sanitizer', 'set CUDA_STREAMS_SANITIZER=1 for the program']])

const HOST_LEVELS: readonly HostLevel[] = ['exact', 'sampled', 'off']

function hostLevel(given: string): HostLevel {
  const level = HOST_LEVELS.find((one) => one === given)
  if (level === undefined) throw new Error(`--host must be ${HOST_LEVELS.join(', ')}, not '${given}'`)
  return level
}

function noCommand(given: string): Error {
  const names = [...COMMANDS.keys()]
  const meant = nearest(given, names)
  const all = names.map((name) => `'${name}'`)
  const wayOut = meant === undefined ? `there are ${all.join(', ')}` : `did you mean '${meant}'?`
  return new Error(`There is no command '${given}': ${VARIABLES_INSTEAD.get(given) ?? wayOut}`)
}

async function main(): Promise<number> {
  let wanted: Wanted
  try {
    wanted = await read()
  } catch (error) {
    printError(`${messageOf(error)}\n\n${helpOf(process.argv[2])}`)
    return 2
  }
  try {
    const { version } = createRequire(import.meta.url)('../../../../package.json')
    if (wanted.what === 'demo') {
      const { demo } = await import('./demo.js')
      return demo()
    }
    if (wanted.what === 'recording') {
      const { readRecording } = await import('./recordings.js')
      return (await readRecording(wanted.request)) ? 0 : 1
    }
    if (wanted.what === 'sanitize') {
      const { sanitizeProgram } = await import('./sanitize.js')
      return await sanitizeProgram(wanted.request)
    }
    if (wanted.what === 'record') {
      const { recordProgram } = await import('./record.js')
      return await recordProgram(wanted.request)
    }
    if (wanted.what === 'compile') {
      const { compileFiles } = await import('./compile.js')
      return (await compileFiles(wanted.request)) ? 0 : 1
    }
    if (wanted.what !== 'doctor') {
      console.log(wanted.what === 'help' ? helpOf(wanted.command) : version)
      return 0
    }
    const report = await examine(version, wanted.seconds, wanted.files)
    console.log(wanted.json ? JSON.stringify(report, null, 2) : textOf(report, wanted.isVerbose))
    return report.ok ? 0 : 1
  } catch (error) {
    printError(messageOf(error))
    return 1
  }
}

process.exitCode = await main()
