/** The findings of a run as files: text, a page, and JUnit's XML, which continuous integration shows. */
import { writeFileSync } from 'node:fs'
import { checkWritable } from '../../foundation/base/file-of-process.js'
import { escaped, printableLines } from '../../foundation/base/printable.js'
import type { SanitizerReport } from '../sanitizer/findings.js'

/** A finding as the files have it. */
export type FindingText = Pick<SanitizerReport, 'kind' | 'severity' | 'message'>

/** The findings of one process. */
export interface ProcessFindings {
  /** The name of the process in a report. */
  readonly name: string
  readonly findings: readonly FindingText[]
  readonly calls: number
  /** Whether the recording is complete. */
  readonly isComplete: boolean
}

/** The files to write, each undefined if it is not asked for. */
export interface ReportFiles {
  readonly text: string | undefined
  readonly html: string | undefined
  readonly junit: string | undefined
}

/** Throws ERR_INVALID_ARG_VALUE for a file that could not be written at the end of the run. */
export function checkReportFiles({ text, html, junit }: ReportFiles): void {
  for (const file of [text, html, junit]) if (file !== undefined) checkWritable(file, `The report ${file}`)
}

export function writeReports(
  { text, html, junit }: ReportFiles,
  processes: readonly ProcessFindings[],
  command: string,
): void {
  if (text !== undefined) writeFileSync(text, textOf(processes))
  if (html !== undefined) writeFileSync(html, pageOf(processes, command))
  if (junit !== undefined) writeFileSync(junit, junitOf(processes))
}

/** The last line about a process. */
export function sumOf({ findings, calls, isComplete }: ProcessFindings): string {
  const found = findings.length === 0 ? 'No findings' : `${findings.length} finding(s)`
  return `${found} in ${calls} calls${missing(isComplete)}`
}

/** The addition to a sentence about a recording whose process was ended before it. */
export const missing = (isComplete: boolean): string => (isComplete ? '' : '. The end of the recording is missing')

const textOf = (processes: readonly ProcessFindings[]): string =>
  processes
    .flatMap((one) => [...one.findings.map(({ message }) => printableLines(message)), `${one.name}: ${sumOf(one)}`])
    .map((paragraph) => `${paragraph}\n`)
    .join('\n')

/** Each finding is a test case that failed; a process without one is a case that passed. */
function junitOf(processes: readonly ProcessFindings[]): string {
  const suites = processes.map((one) => {
    const { name, findings } = one
    const failures = findings.filter(({ severity }) => severity === 'error')
    const cases = findings.map(({ kind, severity, message }, at) => {
      const [heading = ''] = message.split('\n')
      const text = linesOf(message)
      const says =
        severity === 'error'
          ? `<failure type="${kind}" message="${escaped(heading)}">${text}</failure>`
          : `<system-out>${text}</system-out>`
      return `    <testcase classname="${escaped(name)}" name="${kind} ${at + 1}">${says}</testcase>`
    })
    if (cases.length === 0) cases.push(`    <testcase classname="${escaped(name)}" name="${escaped(sumOf(one))}"/>`)
    return [
      `  <testsuite name="${escaped(name)}" tests="${cases.length}" failures="${failures.length}" errors="0">`,
      ...cases,
      '  </testsuite>',
    ].join('\n')
  })
  return ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites>', ...suites, '</testsuites>', ''].join('\n')
}

const linesOf = (message: string): string => message.split('\n').map(escaped).join('\n')

const STYLE = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h2 { font-size: 1.1rem; margin: 2rem 0 0.5rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem; border: 1px solid; border-left-width: 0.4rem; border-radius: 0.3rem; font-size: 0.85rem }
pre.error { border-color: #c0392b }
pre.warning { border-color: #b7791f }`

function pageOf(processes: readonly ProcessFindings[], command: string): string {
  const sections = processes.map((one) =>
    [
      `<h2>${escaped(one.name)}: ${escaped(sumOf(one))}</h2>`,
      ...one.findings.map(({ severity, message }) => `<pre class="${severity}">${linesOf(message)}</pre>`),
    ].join('\n'),
  )
  const nothing = processes.length === 0 ? ['<p>Nothing was traced: the program did not use CUDA.</p>'] : []
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    `<title>Missing waits</title><style>${STYLE}</style></head><body>`,
    `<h1>Missing waits</h1><p><code>${escaped(command)}</code></p>`,
    ...nothing,
    ...sections,
    '</body></html>',
    '',
  ].join('\n')
}
