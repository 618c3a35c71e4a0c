/**
 * A Uint8Array whose memory is an ArrayBuffer, as `new Blob([bytes])` wants it. TypeScript before 5.7 has no type
 * arguments of typed arrays, so declarations cannot say `Uint8Array<ArrayBuffer>`; this is that type where there is one.
 */
export type OwnBytes = ReturnType<typeof Uint8Array.of>
