/**
 * docs/tutorials/first-stream.md, done as it says: its files are written, its commands run, and its outputs compared. As a program this takes the
 * packed package and all else from the registry, as a reader does.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from '../helpers/root.js'
import { packInto, runIn } from './packed.js'

interface Step {
  readonly line: number
  readonly language: string
  readonly code: string
  /** The file that the line above names. */
  readonly file: string | undefined
}

const FENCE = /(?:^`(?<file>[\w.]+)`:\n\n)?^```(?<language>\w+)\n(?<code>.*?)^```$/gms
/** The first line of commands that take a later Node. */
const NODE = /^# Node (\d+)\n/

function steps(): readonly Step[] {
  const page = readFileSync(join(root, 'docs', 'tutorials', 'first-stream.md'), 'utf8')
  return [...page.matchAll(FENCE)].map(({ index, groups = {} }) => ({
    line: page.slice(0, index).split('\n').length,
    language: groups['language'] ?? '',
    code: groups['code'] ?? '',
    file: groups['file'],
  }))
}

/** Follows the page in an empty folder; `install` does what a line that begins with `npm install` says. */
export function follow(folder: string, install: (command: string) => void): void {
  let printed: string | undefined
  for (const { line, language, code, file } of steps()) {
    const where = `docs/tutorials/first-stream.md:${line}`
    if (file !== undefined) writeFileSync(join(folder, file), code)
    if (language === 'sh') printed = isFor(code) ? runLines(folder, code, install) : undefined
    else if (language === 'text' && printed !== undefined) assert.equal(printed, code, where)
  }
}

function isFor(code: string): boolean {
  const [, wanted = '0'] = NODE.exec(code) ?? []
  // Of the `node` that the page's commands find, which need not be what runs this.
  const version = execFileSync('node', ['--version'], { encoding: 'utf8' })
  return Number(version.slice(1).split('.')[0]) >= Number(wanted)
}

function runLines(folder: string, code: string, install: (command: string) => void): string {
  let printed = ''
  for (const line of code.trimEnd().split('\n')) {
    if (line.startsWith('npm install ')) {
      install(line)
      continue
    }
    const { stdout, stderr } = runIn(folder, 'bash', '-c', line)
    printed += stdout
    const finds = line.includes('CUDA_STREAMS_SANITIZER')
    if (finds) assert.match(stderr, /Race: nothing orders[\s\S]*Add `consumer\.wait\(producer\)` before this copy/)
    else assert.equal(stderr.replace(/^npm (warn|notice).*\n/gm, ''), '', line)
  }
  return printed
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = mkdtempSync(join(tmpdir(), 'quickstart-'))
  const project = mkdtempSync(join(tmpdir(), 'quickstart-'))
  try {
    const tarball = packInto(folder)
    follow(project, (command) => {
      const line = command.replace(/ cuda-streams$/, ` ${tarball}`)
      console.log(line)
      runIn(project, 'bash', '-c', line)
    })
    console.log('docs/tutorials/first-stream.md does what it says')
  } finally {
    for (const each of [folder, project]) rmSync(each, { recursive: true, force: true })
  }
}
