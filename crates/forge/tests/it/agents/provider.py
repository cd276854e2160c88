"""The servers of model providers, on one port of loopback, for tests with real coding agents.

`provider.py PORT LOG`: prints the process that serves from then on. Every request is a line of JSON in LOG. A key that contains `dead` gets the
provider's own refusal. A prompt with `WORK{COMMAND}` gets a call of the agent's shell tool with
that command, and its result gets the answer `the work is done`. Every other prompt gets the answer
`hello from the test`.
"""

import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DONE = "the work is done"
HELLO = "hello from the test"
SHELLS = {
    "Bash": lambda command: {"command": command, "description": "the work"},
    "bash": lambda command: {"command": command, "description": "the work"},
    "run_shell_command": lambda command: {"command": command, "description": "the work"},
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["sh", "-c", command]},
}


def texts(node):
    """All strings of a value, in order."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def decide(parts, tools):
    """The answer to the parts of a conversation (each with `is_result`): a text, or a call."""
    wanted, answered = None, False
    for part, is_result in parts:
        if is_result:
            wanted, answered = None, True
            continue
        commands = [match.group(1) for text in texts(part)
                    for match in re.finditer(r"WORK\{(.*?)\}", text)]
        wanted = commands[-1] if commands else wanted
        answered = answered and not any(texts(part))
    shell = next((name for name in tools if name in SHELLS), None)
    if wanted and shell:
        return None, (shell, SHELLS[shell](wanted))
    return DONE if answered else HELLO, None


def anthropic(body):
    contents = [message["content"] for message in body["messages"] if message["role"] == "user"]
    parts = [part for content in contents
             for part in (content if isinstance(content, list) else [{"text": content}])]
    parts = [(part, part.get("type") == "tool_result") for part in parts]
    text, call = decide(parts, [tool["name"] for tool in body.get("tools", [])])
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
               "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if call:
        block = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": text}
    reason = "tool_use" if call else "end_turn"
    if not body.get("stream"):
        block = {**block, **({"input": call[1]} if call else {"text": text})}
        return {**message, "content": [block], "stop_reason": reason}
    return [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None},
                           "usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ]


def responses(body):
    items = body["input"] if isinstance(body["input"], list) else [{"content": body["input"]}]
    parts = [(item.get("content"), item.get("type", "").endswith("_output")) for item in items
             if item.get("role", "user") == "user"]
    tools = [tool.get("name") or tool.get("type") for tool in body.get("tools", [])]
    text, call = decide(parts, tools)
    if call:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": call[0],
                "arguments": json.dumps(call[1]), "status": "completed"}
    else:
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part],
                "status": "completed"}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "resp_1", "object": "response", "model": body["model"], "output": [item],
                "status": "completed", "usage": usage}
    if not body.get("stream"):
        return response
    events = [("response.created", {"response": {**response, "output": [], "status": "in_progress"}}),
              ("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}})]
    if not call:
        events.append(("response.output_text.delta", {"item_id": "msg_1", "output_index": 0,
                                                      "content_index": 0, "delta": text}))
    return events + [("response.output_item.done", {"output_index": 0, "item": item}),
                     ("response.completed", {"response": response})]


def chat(body):
    parts = [(message.get("content"), message["role"] == "tool") for message in body["messages"]
             if message["role"] in ("user", "tool")]
    text, call = decide(parts, [tool["function"]["name"] for tool in body.get("tools", [])])
    delta = {"role": "assistant", "content": text}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta = {"role": "assistant", "content": None,
                 "tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                                 "function": function}]}
    reason = "tool_calls" if call else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    common = {"id": "chat_1", "created": 1, "model": body["model"], "usage": usage}
    if not body.get("stream"):
        choice = {"index": 0, "message": delta, "finish_reason": reason}
        return {**common, "object": "chat.completion", "choices": [choice]}
    chunk = {**common, "object": "chat.completion.chunk"}
    return [(None, {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
            (None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
            (None, "[DONE]")]


def gemini(body):
    parts = [(part, "functionResponse" in part) for content in body["contents"]
             if content.get("role") != "model" for part in content["parts"]]
    tools = [function["name"] for tool in body.get("tools", [])
             for function in tool.get("functionDeclarations", [])]
    text, call = decide(parts, tools)
    if body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        text, call = '{"complexity_reasoning": "it is a test", "complexity_score": 1}', None
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5,
                              "totalTokenCount": 15},
            "modelVersion": "test"}


WIRES = [
    (r"/v1/messages$", anthropic,
     {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
    (r"/responses$", responses,
     {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error",
                "param": None, "code": "invalid_api_key"}}),
    (r"/chat/completions$", chat,
     {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error",
                "param": None, "code": "invalid_api_key"}}),
    (r":(stream)?[gG]enerateContent$", gemini,
     {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT"}}),
]


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content_type, body):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-should-retry", "false")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.record({})
        # Codex tries WebSocket first, and goes on with requests after this answer.
        status = 426 if "upgrade" in self.headers else 404
        self.answer(status, "application/json", b"{}")

    do_HEAD = do_GET

    def record(self, body):
        line = {"method": self.command, "path": self.path, "headers": dict(self.headers),
                "body": body}
        with open(sys.argv[2], "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.record(body)
        path = self.path.split("?")[0]
        wire = next((wire for wire in WIRES if re.search(wire[0], path)), None)
        if wire is None:
            return self.answer(404, "application/json", b"{}")
        if any("dead" in value for name, value in self.headers.items() if "key" in name.lower()
               or name.lower() == "authorization"):
            return self.answer(400 if wire[1] is gemini else 401, "application/json",
                               json.dumps(wire[2]).encode())
        answer = wire[1](body)
        if wire[1] is gemini and "stream" in path:
            answer = [(None, answer)]
        if not isinstance(answer, list):
            return self.answer(200, "application/json", json.dumps(answer).encode())
        self.answer(200, "text/event-stream", b"".join(
            self.event(name, data, number) for number, (name, data) in enumerate(answer)))

    @staticmethod
    def event(name, data, number):
        if isinstance(data, str):
            return f"data: {data}\n\n".encode()
        if name:
            data = {"type": name, "sequence_number": number, **data}
        head = f"event: {name}\n" if name else ""
        return f"{head}data: {json.dumps(data)}\n\n".encode()


if __name__ == "__main__":
    SERVER = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Provider)
    # It listens when the parent ends, so nobody waits.
    PID = os.fork()
    if PID:
        print(PID)
    else:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        SERVER.serve_forever()
