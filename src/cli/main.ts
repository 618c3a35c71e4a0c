#!/usr/bin/env node
/** The command of the package: reads its arguments, and sets the exit code. */
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { messageOf } from '../base/errors.js'
import { printError } from '../base/standard-error.js'
import { examine } from './doctor.js'
import { textOf } from './report.js'

const USAGE = `Usage: cuda-streams doctor [--json] [--timeout SECONDS]
       cuda-streams [--help | --version]

doctor examines what cuda-streams needs on this machine, prints which driver a program gets and why, and tests each
of its devices. The exit code is 0 if everything that is requested works, and 1 if something does not.

  --json             the report as JSON
  --timeout SECONDS  the time limit of a step (default 30)
  -h, --help         print this
  -v, --version      print the version of the package`

const OPTIONS = {
  json: { type: 'boolean' },
  timeout: { type: 'string', default: '30' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const

interface Wanted {
  readonly what: 'help' | 'version' | 'doctor'
  readonly json: boolean
  readonly seconds: number
}

/** @throws Error if the arguments are wrong */
function read(): Wanted {
  const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true })
  const { help = false, version = false, json = false, timeout } = values
  const seconds = Number(timeout)
  if (help || version) return { what: help ? 'help' : 'version', json, seconds }
  if (positionals.length === 0) return { what: 'help', json, seconds }
  if (positionals.join(' ') !== 'doctor') throw new Error(`The command is 'doctor', not '${positionals.join(' ')}'`)
  if (!(seconds > 0 && seconds < 86_400)) throw new Error(`--timeout must be a number of seconds, not '${timeout}'`)
  return { what: 'doctor', json, seconds }
}

async function main(): Promise<0 | 1 | 2> {
  let wanted: Wanted
  try {
    wanted = read()
  } catch (error) {
    printError(`${messageOf(error)}\n\n${USAGE}`)
    return 2
  }
  try {
    const { version } = createRequire(import.meta.url)('../../../package.json')
    if (wanted.what !== 'doctor') {
      console.log(wanted.what === 'help' ? USAGE : version)
      return 0
    }
    const report = await examine(version, wanted.seconds)
    console.log(wanted.json ? JSON.stringify(report, null, 2) : textOf(report))
    return report.ok ? 0 : 1
  } catch (error) {
    printError(messageOf(error))
    return 1
  }
}

process.exitCode = await main()
