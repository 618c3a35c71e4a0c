/**
 * An entry of the catalogue: a public call, what it needs, what it does, what it uses, what must come of it, and what options it has.
 * The tests that try every call make their lists of these entries: the matrix, its closings and user code, the names of options, the
 * refusals of the driver, leaks.
 */
import type { Act, Waits } from './rules.js'
import type { Scene } from './scene.js'

/** One operand that is memory. */
export interface Operand {
  readonly name: string
  /** The word that it is full of before. Default: one of its own. */
  readonly word?: number
  /** The word that it is full of once the call was made so many times and is done. Default: as before. */
  readonly becomes?: (scene: Scene, times: number) => number
  /** cuBLAS and NCCL take memory of their device only. Default: any. */
  readonly takes?: 'of the device'
}

/** When the event that the call is about was recorded on the call's stream. */
export type EventOf =
  /** It was done when the host function was queued. */
  | 'before'
  /** After the host function was queued and, where the call's stream captures, in the capture. */
  | 'behind'
  /** It was not. */
  | 'never'

/** The call itself, with all that it needs: with options of its own, or with those of a test. */
export type Invoke = (options?: never) => unknown

type Values = Readonly<Record<string, (scene: Scene) => unknown>>

export interface Options<V extends Values = Values> {
  /** Every option, with what makes a value that it may have: while nothing stands, and after `prepare()`. */
  readonly values: V
  /** The member that has these options. Default: the first of the call's. */
  readonly of?: string
  /** Options that are read, too: another entry has them, or no declaration. */
  readonly others?: readonly string[]
  /** They are of an object in the arguments, for which no declaration of a method has them. */
  readonly isNested?: boolean
  /** It is an object of the program, that may have more properties. */
  readonly isOpen?: boolean
  /** Errors that may come as well where a getter of one closes something. */
  readonly closedCodes?: readonly string[]
  /** Why no getter of them closes anything in the matrix. */
  readonly apart?: string
  /** Why that cannot be tried here, if it cannot. Default: what the call lacks. */
  readonly lacks?: Lacks
}

type Lacks = (scene: Pick<Scene, 'lab' | 'bench'>) => string | undefined | Promise<string | undefined>

export interface Call {
  /** As it is written. */
  readonly name: string
  /** Why it is no row of the matrix. */
  readonly apart?: string
  /** The public members that it makes use of, as `members.ts` names them. */
  readonly members: readonly string[]
  readonly act: Act
  /** What it blocks for. Default: it never blocks. */
  readonly waits?: Waits | ((scene: Scene) => Waits | undefined)
  readonly memory?: readonly Operand[]
  readonly event?: EventOf
  /** What it uses besides that can be closed, by the names of `scene.closers`. */
  readonly uses?: readonly string[]
  /** On which stream it acts, where that is not the stream of the cell. */
  readonly on?: 'null'
  /** Nodes that a capture of it has; undefined where that is a library's own affair. Default: 1 for an act that queues. */
  readonly nodes?: (scene: Scene) => number | undefined
  /** What its arguments are refused with, before anything else: any of these. */
  readonly refuses?: (scene: Pick<Scene, 'situation'>) => readonly string[]
  /** The capture that it was made in may end in 904, too. */
  readonly mayLeaveUnjoined?: boolean
  /** On CUDA it works on threads of the library's own, which may invalidate any capture in global mode. */
  readonly hasThreads?: boolean
  /** Closing what it used is a part of it: what it captured cannot be launched. */
  readonly consumes?: boolean
  /** What it closes: it is closed when the call is back, and open if the call was refused. */
  readonly closes?: (scene: Scene) => { readonly closed: boolean } | undefined
  /** It is no call on a stream: where that is closed, it is as good as before. */
  readonly withoutStream?: boolean
  /** What it may be refused with, beside ERR_CLOSED, where something that it uses is closed. */
  readonly closedCodes?: readonly string[]
  /** It takes an entry of the stream's hardware queue: where that is full, it waits. */
  readonly takesRoom?: 'on both drivers' | 'on cuda'
  /** So slow that a few cells must do. */
  readonly slow?: boolean
  /** Why it cannot be made here, if it cannot. */
  readonly lacks?: Lacks
  readonly options?: Options
  /** Makes what it needs, while nothing stands and nothing is captured, and returns the call. */
  prepare(scene: Scene): Invoke | Promise<Invoke>
  /** Looks at what the call returned, or its promise was fulfilled with. */
  readonly answers?: (scene: Scene, value: unknown) => void | Promise<void>
}

type Given<V extends Values> = { readonly [Name in keyof V]: ReturnType<V[Name]> }
type WithOptions<V extends Values> = Omit<Call, 'options' | 'prepare'> & {
  readonly options: Options<V>
  prepare(scene: Scene): ((options?: Given<V>) => unknown) | Promise<(options?: Given<V>) => unknown>
}

/** A call with options. The compiler compares their values with what the call takes. */
export const withOptions = <V extends Values>(call: WithOptions<V>): Call => call

/** All options of a call, with their values. */
export const valuesOf = ({ options }: Call, scene: Scene): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(options?.values ?? {}).map(([name, make]) => [name, make(scene)]))

/** As the declarations name its options: `Stream#record: external`. */
export const namesOf = ({ members, options }: Call): readonly string[] =>
  Object.keys(options?.isNested === true ? {} : (options?.values ?? {})).map(
    (name) => `${options?.of ?? members[0]}: ${name}`,
  )

export const onlySimulated: Lacks = ({ bench }) =>
  bench.name === 'sim' ? undefined : 'tried on the simulator, whose implementation of the library needs no GPU'

/** close() of something, and its disposal. */
export const closing = (
  what: string,
  name: string,
  make: (scene: Scene) => { close(): void; [Symbol.dispose](): void; readonly closed: boolean },
  more: Partial<Call> = {},
): readonly Call[] =>
  (['close', Symbol.dispose] as const).map((how): Call => {
    const member = typeof how === 'symbol' ? '[Symbol.dispose]' : how
    return {
      name: `${what}${typeof how === 'symbol' ? '' : '.'}${member}()`,
      members: [`${name}#${member}`],
      act: 'makes',
      closes: ({ subject }) => subject,
      ...more,
      prepare: (scene) => {
        const made = make(scene)
        scene.subject = made
        return () => made[how]()
      },
    }
  })

const QUEUING: readonly Act[] = ['queues', 'queues by a library', 'queues a host function', 'queues a callback']

export const queues = ({ act }: Call): boolean => QUEUING.includes(act)
