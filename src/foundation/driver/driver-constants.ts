/** CUDA's flags and enumerations, and what the library reserves where nothing else is known. */

export const StreamFlag = { NON_BLOCKING: 1 } as const
export const EventFlag = { DEFAULT: 0, BLOCKING_SYNC: 1, DISABLE_TIMING: 2, INTERPROCESS: 4 } as const

/**
 * True if a record of an event with these flags counts as work of its stream. Only a record of a plain event without
 * timing does not.
 */
export const isRecordWork = (flags: number): boolean => flags !== EventFlag.DISABLE_TIMING

/** CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL. */
export const ExternalFlag = { NONE: 0, EXTERNAL: 1 } as const
export type ExternalFlag = (typeof ExternalFlag)[keyof typeof ExternalFlag]

/** CUstreamCaptureMode. */
export const CaptureMode = { GLOBAL: 0, THREAD_LOCAL: 1, RELAXED: 2 } as const
export type CaptureMode = (typeof CaptureMode)[keyof typeof CaptureMode]

/** CUgraphConditionalNodeType. */
export const ConditionalType = { IF: 0, WHILE: 1, SWITCH: 2 } as const
export type ConditionalType = (typeof ConditionalType)[keyof typeof ConditionalType]

/**
 * Entries of a hardware queue that one call of a library takes at most, unless the call says more: a few kernels, and what they copy
 * and clear before.
 */
export const LIBRARY_ENTRIES = 8

/** The most that are reserved for one call: about half of what a hardware queue holds. */
export const MOST_LIBRARY_ENTRIES = 500

/** CUstreamWaitValue_flags. */
export const Comparison = { GEQ: 0, EQ: 1, AND: 2, NOR: 3 } as const
export type Comparison = (typeof Comparison)[keyof typeof Comparison]

/** The limits of a kernel whose code has none of its own. */
export const LIMITS_OF_ANY = { maxThreads: 1024, staticSharedBytes: 0 } as const
