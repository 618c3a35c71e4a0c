import { Device, Stream } from 'cuda-streams'
import { mandelbrot } from './mandelbrot.cu'

const canvas = document.querySelector('canvas')
const text = document.querySelector('p')
const stream = new Stream({ device: Device.get() })

async function draw(kernel: typeof mandelbrot): Promise<void> {
  if (canvas === null || text === null) return
  const { width, height } = canvas
  using image = stream.device.alloc(4 * width * height, { stream })
  stream.launch(kernel, { threads: [width, height], block: [16, 16] }, image, width, height)
  const pixels = await stream.download(image, Uint8ClampedArray)
  canvas.getContext('2d')?.putImageData(new ImageData(pixels, width, height), 0, 0)
  text.textContent = `${stream.device.name}: the middle is ${pixels
    .subarray(4 * (width / 2 + (height / 2) * width))
    .slice(0, 4)
    .join(', ')}`
}

await draw(mandelbrot)
// Saving mandelbrot.cu draws the picture again; the page is not loaded again.
import.meta.hot?.accept('./mandelbrot.cu', (changed) => draw(changed?.['mandelbrot'] ?? mandelbrot))
