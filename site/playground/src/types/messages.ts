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

export interface Diagnostic {
  readonly from: number
  readonly to: number
  readonly severity: 'error' | 'warning'
  readonly message: string
}

export interface Completion {
  readonly label: string
  readonly type: string
  readonly boost?: number
}

export interface About {
  readonly from: number
  readonly to: number
  readonly text: string
  readonly documentation: string
}
