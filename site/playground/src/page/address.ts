/** The program in the address, behind the `#`: no server sees it. */
export interface Place {
  readonly lesson: string | undefined
  /** Undefined: the lesson's own. */
  readonly code: string | undefined
  /** Texts of kernels that are not as the page was built with them, by file. */
  readonly kernels: Readonly<Record<string, string>>
}

export async function readAddress(): Promise<Place> {
  const parts = new URLSearchParams(location.hash.slice(1))
  const text = async (name: string): Promise<string | undefined> => {
    const packed = parts.get(name)
    return packed === null ? undefined : await unpacked(packed).catch(() => undefined)
  }
  return {
    lesson: parts.get('lesson') ?? undefined,
    code: await text('code'),
    kernels: textsIn((await text('kernels')) ?? '{}'),
  }
}

/** Of an address that somebody has changed, what is of use. */
function textsIn(json: string): Readonly<Record<string, string>> {
  try {
    const all: unknown = JSON.parse(json)
    return Object.fromEntries(
      Object.entries(Object(all)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    )
  } catch {
    return {}
  }
}

/** Replaces the address of the page, and returns the new one. */
export async function writeAddress({ lesson, code, kernels }: Place): Promise<string> {
  const parts = new URLSearchParams()
  if (lesson !== undefined) parts.set('lesson', lesson)
  if (code !== undefined) parts.set('code', await packed(code))
  if (Object.keys(kernels).length > 0) parts.set('kernels', await packed(JSON.stringify(kernels)))
  history.replaceState(null, '', `#${parts}`)
  return location.href
}

const through = async (bytes: BlobPart, stream: ReadableWritablePair<Uint8Array, BufferSource>): Promise<Uint8Array> =>
  new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer())

async function packed(text: string): Promise<string> {
  const bytes = await through(
    text,
    new CompressionStream('deflate-raw') as ReadableWritablePair<Uint8Array, BufferSource>,
  )
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
  return letters.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

async function unpacked(letters: string): Promise<string> {
  const binary = atob(letters.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0))
  const stream = new DecompressionStream('deflate-raw') as ReadableWritablePair<Uint8Array, BufferSource>
  return new TextDecoder().decode(await through(bytes, stream))
}
