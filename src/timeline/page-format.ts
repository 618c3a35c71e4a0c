/** The recording as it is written into the page. */
import type { Gap } from './gap.js'

export interface PageData {
  readonly title: string
  readonly driver: string
  readonly clock: string
  readonly duration: number
  readonly dropped: number
  /** Nanoseconds by which times may be off; 0 where they are exact. */
  readonly uncertainty: number
  readonly kinds: readonly string[]
  readonly bindings: readonly string[]
  readonly devices: readonly (readonly [number, string])[]
  readonly lanes: readonly {
    readonly name: string
    readonly device: number
    readonly id: string
    readonly priority: number
    readonly nonBlocking: boolean
    readonly nodeTracks: number
  }[]
  readonly names: readonly string[]
  readonly sites: readonly string[]
  readonly length: number
  /** Typed arrays, little-endian, in base64. */
  readonly columns: Readonly<Record<PageColumn, string>>
  /** The longest; of all there are so many, of so many nanoseconds together. */
  readonly gaps: readonly Gap[]
  readonly gapCount: number
  readonly gapTime: number
}

type RowColumn = 'kind' | 'lane' | 'name' | 'bytes' | 'cause' | 'parent' | 'site'
type TimeColumn = 'called' | 'returned' | 'start' | 'end'
/** The last four are worked out for the page. */
export type PageColumn = RowColumn | TimeColumn | 'track' | 'why' | 'heldUpBy' | 'path'
