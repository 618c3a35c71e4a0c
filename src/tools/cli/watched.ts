/**
 * Checks the trace of a process while it runs, part by part: the Python package asks for the findings in a part of a program, or in a test. The files
 * beside the trace tell the command that checks it in the end what was found.
 */
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { messageOf } from '../../foundation/base/errors.js'
import { Check } from '../recording/check.js'
import { Conversion } from '../recording/process-trace.js'
import { Reader } from '../recording/reader.js'
import type { FindingText } from './finding-reports.js'

/** The file with the findings in the watched parts of a process. Where it exists, findings elsewhere do not count. */
export const watchedFile = (folder: string, process: string): string => join(folder, `${process}.watched`)
/** The file that is there if possible races count, too. */
export const possibleFile = (folder: string): string => join(folder, 'possible')

/** @throws {SyntaxError} for a file that was not written by a Watch */
export const watchedFindings = (file: string): readonly FindingText[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line): FindingText => JSON.parse(line))

/** The check of the trace of a process that runs. */
class Watch {
  readonly #recordings = mkdtempSync(join(tmpdir(), 'cuda-streams-watch-'))
  readonly #trace: string
  readonly #found: string
  #followed: { readonly conversion: Conversion; readonly check: Check } | undefined

  constructor(
    private readonly folder: string,
    process: string,
  ) {
    this.#trace = join(folder, `${process}.trace`)
    this.#found = watchedFile(folder, process)
  }

  /** Begins a part: what the process has done before is no finding, but what the part's work comes after. */
  async begin(): Promise<void> {
    appendFileSync(this.#found, '')
    const check = await this.#look()
    check?.findings.forget()
  }

  /** Ends a part, with its findings. The next one begins. */
  async end(): Promise<readonly FindingText[]> {
    const check = await this.#look()
    const findings = (check?.findings.reports ?? []).map(({ kind, severity, message }) => ({ kind, severity, message }))
    check?.findings.forget()
    for (const finding of findings) appendFileSync(this.#found, `${JSON.stringify(finding)}\n`)
    return findings
  }

  close(): void {
    this.#followed?.conversion.close()
    this.#followed?.check.finish()
    rmSync(this.#recordings, { recursive: true })
  }

  /** Checks what the process has done by now. Undefined as long as it has not used CUDA. */
  async #look(): Promise<Check | undefined> {
    if (this.#followed === undefined && existsSync(this.#trace)) {
      const recording = join(this.#recordings, 'run.rec')
      const conversion = new Conversion(this.#trace, recording, { possible: existsSync(possibleFile(this.folder)) })
      this.#followed = { conversion, check: new Check(new Reader(recording, true)) }
    }
    this.#followed?.conversion.more()
    await this.#followed?.check.more()
    return this.#followed?.check
  }
}

/** Answers each line of the input, a `begin` or an `end`, with a line of JSON: the findings, or why there is no answer. */
export async function watch(
  folder: string,
  process: string,
  lines: AsyncIterable<string>,
  say: (line: string) => void,
): Promise<void> {
  const watching = new Watch(folder, process)
  try {
    for await (const line of lines) {
      try {
        if (line === 'begin') await watching.begin()
        say(JSON.stringify({ findings: line === 'begin' ? [] : await watching.end() }))
      } catch (error) {
        say(JSON.stringify({ error: messageOf(error) }))
      }
    }
  } finally {
    watching.close()
  }
}
