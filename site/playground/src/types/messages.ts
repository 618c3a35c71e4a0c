export interface Question {
  readonly what: 'check' | 'complete' | 'describe' | 'signature' | 'detail'
  readonly code: string
  readonly at: number
  /** TypeScript's declarations of files, such as those of axpy.cu, in place of those that the page was built with. */
  readonly declarations: Readonly<Record<string, string>>
  /** Which of the completions there. */
  readonly name?: string
}

export interface Answer {
  readonly diagnostics?: readonly Diagnostic[]
  readonly completions?: readonly Completion[]
  readonly about?: About
  readonly detail?: Detail
  readonly signature?: Signature
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

export interface Detail {
  readonly text: string
  readonly documentation: string
}

export interface About extends Detail {
  readonly from: number
  readonly to: number
}

/** A call that is being written. */
export interface Signature {
  /** Where the list of its arguments begins. */
  readonly from: number
  /** Its text: what stands before the parameters, each of them with what separates it from the next, and what stands behind. */
  readonly before: string
  readonly parameters: readonly string[]
  readonly after: string
  /** Which parameter it is at. */
  readonly at: number
  readonly documentation: string
}
