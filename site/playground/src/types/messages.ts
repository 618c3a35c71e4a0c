import type { About, Completion, Diagnostic } from '../page/types.js'

export interface Question {
  readonly what: 'check' | 'complete' | 'describe'
  readonly code: string
  readonly at: number
}

export interface Answer {
  readonly diagnostics?: readonly Diagnostic[]
  readonly completions?: readonly Completion[]
  readonly about?: About
}
