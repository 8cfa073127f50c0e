// One conversation as a request of any protocol, and as a program: curl, and three vendors' SDKs in Python.
import * as chat_completion from "./wire_chat_completion.js";
import * as gemini from "./wire_gemini.js";
import * as messages from "./wire_messages.js";
import * as responses from "./wire_responses.js";

export const PROTOCOLS = {chat_completion, responses, messages, gemini};

// `raw`: a body that was made elsewhere, of this protocol.
export const request = (protocol, ask) => {
  const [path, body] = PROTOCOLS[protocol].build(ask);
  return {path, body: JSON.parse(JSON.stringify(ask.raw ? {...ask.raw, stream: body.stream} : body))};
};

// In pretty JSON a line ends with a bare word only where that is the value.
const python = (value) => JSON.stringify(value, null, 4).replace(/: (true|false|null)(?=,?$)/gm, (_, word) => `: ${{true: "True", false: "False", null: "None"}[word]}`);

const program = (module, client, options, call, body, ...loop) =>
  `import os\nfrom ${module} import ${client.split(".")[0]}\n\nclient = ${client}(api_key=os.environ["MONOIZE_KEY"], ${options})\nstream = client.${call}(**${python(body)})\n${loop.join("\n")}\n`;

const SDKS = {
  chat_completion: (base, {body}) => program("openai", "OpenAI", `base_url="${base}/v1"`, "chat.completions.create", body,
    "for chunk in stream:", "    for choice in chunk.choices:", '        print(choice.delta.content or "", end="", flush=True)'),
  responses: (base, {body}) => program("openai", "OpenAI", `base_url="${base}/v1"`, "responses.create", body,
    "for event in stream:", '    if event.type == "response.output_text.delta":', '        print(event.delta, end="", flush=True)'),
  // Its newer versions know no temperature, which other vendors' models behind the gateway may take.
  messages: (base, {body: {temperature, ...body}}) => program("anthropic", "Anthropic", `base_url="${base}"`, "messages.create", temperature === undefined ? body : {...body, extra_body: {temperature}},
    "for event in stream:", '    if event.type == "content_block_delta" and event.delta.type == "text_delta":', '        print(event.delta.text, end="", flush=True)'),
  // It takes base64 for data, so that a reference has to be a file's address.
  gemini: (base, {body: {contents, generationConfig, ...config}}, model) => program("google", "genai.Client", `http_options={"base_url": "${base}", "api_version": "v1beta"}`,
    "models.generate_content_stream", {model, contents, config: {...config, ...generationConfig}}, "for chunk in stream:", '    print(chunk.text or "", end="", flush=True)')
    .replace(/"inlineData"(: \{\s+"mimeType": "[^"]*",\s+)"data"(: "smsfile:)/g, '"fileData"$1"fileUri"$2'),
};

const NAMES = {openai: "chat_completion", anthropic: "messages", "google-genai": "gemini"};

export const programs = (protocol, ask, base) => {
  const {path, body} = request(protocol, ask);
  const curl = `curl -N '${base}${path}' -H "authorization: Bearer $MONOIZE_KEY" -H 'content-type: application/json' --data-binary @- <<'END'\n${JSON.stringify(body, null, 2)}\nEND\n`;
  const others = Object.entries({...NAMES, ...(protocol === "responses" && {openai: protocol})}).filter(([, one]) => !ask.raw || one === protocol)
    .map(([name, one]) => ({name, text: SDKS[one](base, request(one, ask), ask.model)}));
  return [{name: "curl", text: curl}, ...others];
};
