/** What the page and its workers say to each other. */
import type { KernelProfile } from 'cuda-streams/sim'
import type { PageData } from '../../../../src/tools/timeline/page-format.js'

/** PTX in place of that which the page was built with, by the file that a program imports. */
export type KernelTexts = Readonly<Record<string, string>>

export interface Request {
  readonly what: 'run' | 'explore' | 'profile'
  readonly code: string
  readonly kernels: KernelTexts
}

/** Asks what PTX would export. */
export interface DeclareRequest {
  readonly what: 'declare'
  readonly kernels: KernelTexts
}

/** What PTX exports, as TypeScript's declarations and for people to read; or why it cannot be read. */
export type Declared = { readonly declaration: string; readonly said: string } | { readonly problem: string }

export type Level = 'log' | 'warn' | 'error'

/** One side of a finding, in the program's text. */
export interface Side {
  readonly what: string
  readonly stream: string | undefined
  /** From 1. */
  readonly line: number | undefined
}

export interface Insertion {
  /** Before which line, from 1. */
  readonly line: number
  readonly text: string
}

export interface Finding {
  readonly kind: string
  readonly severity: 'error' | 'warning'
  readonly first: Side | undefined
  readonly second: Side
  readonly advice: string
  readonly message: string
  /** What the advice says, as lines to be put in; empty where it is for a person to do. */
  readonly insertions: readonly Insertion[]
}

/** What can be seen of a program from outside. */
export interface Outcome {
  /** What it exports, each value as text. */
  readonly exports: Readonly<Record<string, string>>
  readonly console: readonly string[]
  /** What it threw, and errors of its host functions. */
  readonly errors: readonly string[]
}

/** An error that nothing caught, and the program's line in its stack. */
export interface Failure {
  readonly text: string
  /** From 1. */
  readonly line: number | undefined
}

export interface Ran {
  readonly outcome: Outcome
  /** The errors of the outcome. */
  readonly failures: readonly Failure[]
  readonly findings: readonly Finding[]
  readonly timeline: PageData
  /** Virtual nanoseconds from the first operation's call to the last one's end. */
  readonly duration: number
}

export interface Memory {
  readonly name: string
  readonly byteLength: number
  /** The first of its bytes; undefined once it is freed. */
  readonly bytes: Uint8Array | undefined
}

export interface Step {
  readonly text: string
  readonly line: number | undefined
  /** Here the two orders part. */
  readonly parts: boolean
  /** One of the two that have no order. */
  readonly races: boolean
  /** What the buffers have in them after it. */
  readonly memory: readonly Memory[]
}

export interface Order {
  readonly schedule: string
  readonly outcome: string
  /** Of a long order those around the place where it parts from the other. */
  readonly steps: readonly Step[]
  /** Steps before these, and how many there are in all. */
  readonly from: number
  readonly all: number
}

export interface Explored {
  readonly verdict: 'agree' | 'disagree' | 'deadlock' | 'unfinished'
  readonly complete: boolean
  readonly runs: number
  readonly summary: string
  readonly missing: string
  readonly insertions: readonly Insertion[]
  readonly orders: readonly Order[]
}

export type Reply =
  | { readonly what: 'console'; readonly level: Level; readonly text: string }
  | { readonly what: 'progress'; readonly runs: number; readonly maxRuns: number }
  | { readonly what: 'ran'; readonly ran: Ran }
  | { readonly what: 'explored'; readonly explored: Explored }
  | { readonly what: 'profiled'; readonly profiles: readonly KernelProfile[] }
  | { readonly what: 'declared'; readonly files: Readonly<Record<string, Declared>> }
  /** The text is no program, or its orders cannot be tried. */
  | {
      readonly what: 'refused'
      readonly isProgram: boolean
      readonly message: string
      readonly line: number | undefined
    }
