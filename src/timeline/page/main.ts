/** Reads the recording that the page's file has in it, and shows it. */
import { decodePage } from '../page-format.js'
import { dataOf } from './data.js'
import { byId } from './elements.js'
import { show } from './show.js'

/** Base64 of what zlib made smaller. */
async function read(): Promise<void> {
  const text = byId('data', HTMLScriptElement).textContent ?? ''
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))
  show(dataOf(decodePage(new Uint8Array(await new Response(stream).arrayBuffer()))))
}

read().catch((error: unknown) => {
  byId('about', HTMLElement).textContent = `This browser cannot show the recording: ${error}`
})
